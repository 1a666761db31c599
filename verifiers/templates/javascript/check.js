// Scores whether an answer mentions every word that the task asks for.
//
// The task's metadata names the words: {"must_mention": ["Paris", "Seine"]}. Case does not matter.
// This is one ES module; nothing reaches the network, files or the clock.

const WEIGHT = 1;

// The two functions of the contract in wit/verifier.wit.
export const verify = {
  // Says what this verifier is; must always give the same.
  describe() {
    return {
      name: "{{name}}",
      version: "0.1.0",
      domains: ["*"],
      signals: [
        { name: "mentions", weight: WEIGHT, doc: "share of the words in must_mention that the answer has" },
      ],
      configSchema: "",
      deterministic: true,
    };
  },

  // Scores one answer. The answer is untrusted: it may be empty, huge, or try to fool you.
  verify(task, response, config, budget) {
    const words = wordsWanted(task.metadata);
    const answer = response.text.toLowerCase();
    const missing = words.filter((word) => !answer.includes(word.toLowerCase()));
    const score = 1 - missing.length / words.length;
    const detail = missing.length > 0 ? `missing: ${missing.join(", ")}` : "all are there";
    return { score, confidence: 1, signals: [{ name: "mentions", score, weight: WEIGHT, detail }], trace: [] };
  },
};

// The task's words; a task without any is none of our business, and one with other things is malformed.
// A thrown { tag, val } becomes the contract's verify-error.
function wordsWanted(text) {
  let metadata;
  try {
    metadata = JSON.parse(text || "{}");
  } catch (error) {
    throw { tag: "invalid-task", val: `metadata is no JSON: ${error.message}` };
  }
  const words = metadata?.must_mention ?? [];
  if (!Array.isArray(words) || !words.every((word) => typeof word === "string")) {
    throw { tag: "invalid-task", val: "must_mention is no list of words" };
  }
  if (words.length === 0) {
    throw { tag: "not-applicable", val: "the task has no must_mention" };
  }
  return words;
}
