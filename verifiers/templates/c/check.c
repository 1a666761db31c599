// Scores whether an answer mentions every word that the task asks for.
//
// The task's metadata names the words: {"must_mention": ["Paris", "Seine"]}. The case of ASCII letters does not matter.
// `pointsman verify build` writes verifier.h from wit/verifier.wit into build/ before it compiles every .c file here.
// Nothing reaches the network, files or the clock. Memory need not be freed: every answer gets a fresh instance.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metadata.h"
#include "verifier.h"

#define WEIGHT 1.0

typedef exports_pointsman_verifier_verify_manifest_t manifest_t;
typedef exports_pointsman_verifier_verify_task_t task_t;
typedef exports_pointsman_verifier_verify_response_t response_t;
typedef exports_pointsman_verifier_verify_budget_t budget_t;
typedef exports_pointsman_verifier_verify_verdict_t verdict_t;
typedef exports_pointsman_verifier_verify_verify_error_t verify_error_t;

static void *allocate(size_t count, size_t bytes) {
    void *block = calloc(count, bytes);
    if (!block) abort();
    return block;
}

// Says what this verifier is; must always give the same.
void exports_pointsman_verifier_verify_describe(manifest_t *manifest) {
    memset(manifest, 0, sizeof *manifest);
    verifier_string_dup(&manifest->name, "{{name}}");
    verifier_string_dup(&manifest->version, "0.1.0");
    manifest->domains.ptr = allocate(1, sizeof(verifier_string_t));
    manifest->domains.len = 1;
    verifier_string_dup(&manifest->domains.ptr[0], "*");
    manifest->signals.ptr = allocate(1, sizeof *manifest->signals.ptr);
    manifest->signals.len = 1;
    verifier_string_dup(&manifest->signals.ptr[0].name, "mentions");
    manifest->signals.ptr[0].weight = WEIGHT;
    verifier_string_dup(&manifest->signals.ptr[0].doc, "share of the words in must_mention that the answer has");
    verifier_string_dup(&manifest->config_schema, "");
    manifest->deterministic = true;
}

static char lower(char letter) {
    return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

static bool mentions(const char *text, size_t len, word_t word) {
    for (size_t start = 0; start + word.len <= len; start++) {
        size_t same = 0;
        while (same < word.len && lower(text[start + same]) == lower(word.text[same])) same++;
        if (same == word.len) return true;
    }
    return false;
}

static bool refuse(verify_error_t *error, uint8_t tag, const char *why) {
    error->tag = tag;
    verifier_string_dup(&error->val.invalid_task, why); // all three hold one string
    return false;
}

// Scores one answer; false when `error` was filled instead. The answer is untrusted: it may be empty, huge, or try to
// fool you.
bool exports_pointsman_verifier_verify_verify(task_t *task, response_t *response, verifier_string_t *config,
                                              budget_t *budget, verdict_t *verdict, verify_error_t *error) {
    (void)config, (void)budget;
    words_t words;
    const char *why = metadata_words((char *)task->metadata.ptr, task->metadata.len, "must_mention", &words);
    if (why) return refuse(error, POINTSMAN_VERIFIER_TYPES_VERIFY_ERROR_INVALID_TASK, why);
    if (words.len == 0) {
        return refuse(error, POINTSMAN_VERIFIER_TYPES_VERIFY_ERROR_NOT_APPLICABLE, "the task has no must_mention");
    }
    size_t found = 0;
    for (size_t i = 0; i < words.len; i++) {
        found += mentions((char *)response->text.ptr, response->text.len, words.ptr[i]);
    }
    char detail[80];
    snprintf(detail, sizeof detail, "%zu of %zu words are there", found, words.len);

    memset(verdict, 0, sizeof *verdict);
    verdict->score = (double)found / (double)words.len;
    verdict->confidence = 1.0;
    verdict->signals.ptr = allocate(1, sizeof *verdict->signals.ptr);
    verdict->signals.len = 1;
    verifier_string_dup(&verdict->signals.ptr[0].name, "mentions");
    verdict->signals.ptr[0].score = verdict->score;
    verdict->signals.ptr[0].weight = WEIGHT;
    verifier_string_dup(&verdict->signals.ptr[0].detail, detail);
    return true;
}
