// Reads one list of strings out of a JSON object.
#pragma once

#include <stddef.h>

typedef struct {
    char *text; // UTF-8, not terminated
    size_t len;
} word_t;

typedef struct {
    word_t *ptr;
    size_t len;
} words_t;

// The strings under `key` of the object in `json`; none when the key is not there.
// Gives a message when `json` is no object, or the key holds something else; else NULL.
const char *metadata_words(const char *json, size_t len, const char *key, words_t *words);
