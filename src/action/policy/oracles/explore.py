"""Writes explore.json: Vowpal Wabbit's epsilon-greedy and SquareCB distributions, with the costs that it predicted.

--cb_explore_adf answers with the distribution alone. Its costs are linear in weights that can be read: features are
named by numbers, which VW takes as places among the weights, so cost = sum of weight * value. SquareCB's
gamma is gamma_scale * counter^gamma_exponent (10 and .5 by default), counter being the rounds learnt.
VW computes in 32 bits. Usage: explore.py > explore.json   (needs vowpalwabbit 9.11.9)
"""
import json
import random
import vowpalwabbit

FEATURES, ROUNDS = 3, 240


def lines(values, label=None):
    text = [" ".join(f"{place}:{value}" for place, value in enumerate(arm)) for arm in values]
    taken, cost, propensity = label or (None, 0, 0)
    return [f"{f'0:{cost}:{propensity} ' if arm == taken else ''}| {features}" for arm, features in enumerate(text)]


def run(arms, flags, seed):
    vw = vowpalwabbit.Workspace(f"--quiet --noconstant --cb_explore_adf --cb_type mtr {flags}")
    rng = random.Random(seed)
    cases = []
    for learnt in range(ROUNDS):
        values = [[round(rng.uniform(-1, 1), 2) for _ in range(FEATURES)] for _ in range(arms)]
        pmf = vw.predict(lines(values))
        if learnt in (0, 1, 2, 5, 20, 80, ROUNDS - 1):
            costs = [sum(vw.get_weight(place) * value for place, value in enumerate(arm)) for arm in values]
            cases.append({"learnt": learnt, "costs": costs, "pmf": pmf})
        taken = rng.choices(range(arms), pmf)[0]
        cost = 0.5 + 0.3 * values[taken][0] - 0.2 * values[taken][2] + rng.uniform(-0.1, 0.1)
        vw.learn(lines(values, (taken, round(cost, 3), round(pmf[taken], 6))))
    return cases


data = {
    "epsilon_greedy": [{"epsilon": 0.2, "cases": run(arms, "--epsilon 0.2", arms)} for arms in (2, 5)],
    "square_cb": [
        {"gamma_scale": scale, "gamma_exponent": exponent, "cases": run(
            arms, f"--squarecb --gamma_scale {scale} --gamma_exponent {exponent}", arms)}
        for arms, scale, exponent in ((2, 10.0, 0.5), (5, 10.0, 0.5), (5, 40.0, 0.25))
    ],
}
print(json.dumps(data, separators=(",", ":")).replace("{", "\n{"))
