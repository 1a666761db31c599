"""Writes ridge.json: what MABWiser's LinUCB and LinTS make of a seeded stream of raw feature vectors.

Every arm gets data and l2_lambda is 1: an arm without data keeps l2 I where the inverse, I / l2, is meant.
Of LinTS the posterior's mean and covariance are kept (its draws depend on numpy's generator); v is 1.
Usage: ridge.py > ridge.json   (needs mabwiser 2.7.4)
"""
import json
import numpy as np
from mabwiser.mab import MAB, LearningPolicy

D, ARMS, ROUNDS, ALPHA = 8, 4, 300, 1.25
rng = np.random.default_rng(20100426)
x = rng.uniform(-1, 1, (ROUNDS, D)).round(3)
arms = rng.integers(0, ARMS, ROUNDS)
truth = rng.normal(0, 0.3, (ARMS, D))
scores = np.clip(0.5 + (x * truth[arms]).sum(1) + rng.normal(0, 0.2, ROUNDS), 0, 1).round(3)
asked = rng.uniform(-1, 1, (10, D)).round(3)

ucb = MAB(list(range(ARMS)), LearningPolicy.LinUCB(alpha=ALPHA, l2_lambda=1))
ts = MAB(list(range(ARMS)), LearningPolicy.LinTS(alpha=1, l2_lambda=1))
for mab in (ucb, ts):
    mab.fit(arms[:50], scores[:50], x[:50])
    for n in range(50, ROUNDS):
        mab.partial_fit(arms[n : n + 1], scores[n : n + 1], x[n : n + 1])
bounds = [[each[arm] for arm in range(ARMS)] for each in ucb.predict_expectations(asked)]
models = [ts._imp.arm_to_model[arm] for arm in range(ARMS)]
print(json.dumps({
    "alpha": ALPHA,
    "rounds": [[int(a), float(s), v.tolist()] for a, s, v in zip(arms, scores, x)],
    "asked": asked.tolist(),
    "bounds": bounds,
    "means": [m.beta.tolist() for m in models],
    "covariances": [m.A_inv.tolist() for m in models],
}, separators=(",", ":")).replace("],[", "],\n["))
