// A small reader of JSON: it skips what was not asked for, and checks only what it must understand.

#include "metadata.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *at, *end;
} cursor_t;

static bool one_of(char letter, const char *set) {
    return letter && strchr(set, letter);
}

static void skip_blanks(cursor_t *c) {
    while (c->at < c->end && one_of(*c->at, " \t\r\n")) c->at++;
}

static bool take(cursor_t *c, char wanted) {
    skip_blanks(c);
    if (c->at == c->end || *c->at != wanted) return false;
    c->at++;
    return true;
}

// Four hexadecimal digits; -1 when they are not there.
static long hex4(cursor_t *c) {
    long value = 0;
    if (c->end - c->at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        char digit = *c->at++;
        if (digit >= '0' && digit <= '9') value = value * 16 + (digit - '0');
        else if (digit >= 'a' && digit <= 'f') value = value * 16 + (digit - 'a' + 10);
        else if (digit >= 'A' && digit <= 'F') value = value * 16 + (digit - 'A' + 10);
        else return -1;
    }
    return value;
}

static char *put_utf8(char *out, long point) {
    if (point < 0x80) {
        *out++ = (char)point;
    } else if (point < 0x800) {
        *out++ = (char)(0xC0 | point >> 6);
        *out++ = (char)(0x80 | (point & 0x3F));
    } else if (point < 0x10000) {
        *out++ = (char)(0xE0 | point >> 12);
        *out++ = (char)(0x80 | (point >> 6 & 0x3F));
        *out++ = (char)(0x80 | (point & 0x3F));
    } else {
        *out++ = (char)(0xF0 | point >> 18);
        *out++ = (char)(0x80 | (point >> 12 & 0x3F));
        *out++ = (char)(0x80 | (point >> 6 & 0x3F));
        *out++ = (char)(0x80 | (point & 0x3F));
    }
    return out;
}

// What stands after a backslash; a code point above 16 bits is written as two escapes.
static char *read_escape(cursor_t *c, char *out) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (c->at == c->end) return NULL;
    char name = *c->at++;
    if (name != 'u') {
        const char *found = name ? strchr(names, name) : NULL;
        if (!found) return NULL;
        *out++ = values[found - names];
        return out;
    }
    long point = hex4(c);
    if (point >= 0xD800 && point < 0xDC00) {
        if (c->end - c->at < 6 || c->at[0] != '\\' || c->at[1] != 'u') return NULL;
        c->at += 2;
        long low = hex4(c);
        if (low < 0xDC00 || low > 0xDFFF) return NULL;
        point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
    }
    return point < 0 || (point >= 0xDC00 && point <= 0xDFFF) ? NULL : put_utf8(out, point);
}

static bool read_string(cursor_t *c, word_t *word) {
    if (!take(c, '"')) return false;
    const char *close = c->at;
    while (close < c->end && *close != '"') close += *close == '\\' && close + 1 < c->end ? 2 : 1;
    if (close >= c->end) return false;
    // No escape is shorter than what it stands for.
    char *out = malloc((size_t)(close - c->at) + 1);
    if (!out) abort();
    word->text = out;
    while (c->at < close) {
        if (*c->at != '\\') {
            *out++ = *c->at++;
            continue;
        }
        c->at++;
        out = read_escape(c, out);
        if (!out) return false;
    }
    word->len = (size_t)(out - word->text);
    return take(c, '"');
}

// Passes one value of any kind by counting brackets.
static bool skip_value(cursor_t *c) {
    int depth = 0;
    do {
        skip_blanks(c);
        if (c->at == c->end) return false;
        if (*c->at == '"') {
            word_t ignored;
            if (!read_string(c, &ignored)) return false;
            free(ignored.text);
            continue;
        }
        if (one_of(*c->at, "[{")) depth++;
        if (one_of(*c->at, "]}")) depth--;
        if (one_of(*c->at, "[]{},:")) {
            c->at++;
            continue;
        }
        while (c->at < c->end && !one_of(*c->at, "[]{},:\" \t\r\n")) c->at++;
    } while (depth > 0);
    return depth == 0;
}

static bool read_words(cursor_t *c, words_t *words) {
    if (!take(c, '[')) return false;
    if (take(c, ']')) return true;
    do {
        word_t *grown = realloc(words->ptr, (words->len + 1) * sizeof(word_t));
        if (!grown) abort();
        words->ptr = grown;
        if (!read_string(c, &words->ptr[words->len])) return false;
        words->len++;
    } while (take(c, ','));
    return take(c, ']');
}

const char *metadata_words(const char *json, size_t len, const char *key, words_t *words) {
    static const char no_object[] = "metadata is no JSON object";
    cursor_t c = {json, json + len};
    words->ptr = NULL;
    words->len = 0;
    if (!take(&c, '{')) return no_object;
    if (take(&c, '}')) return NULL;
    do {
        word_t name;
        if (!read_string(&c, &name) || !take(&c, ':')) return no_object;
        bool wanted = name.len == strlen(key) && memcmp(name.text, key, name.len) == 0;
        free(name.text);
        if (wanted && !read_words(&c, words)) return "must_mention is no list of words";
        if (!wanted && !skip_value(&c)) return no_object;
    } while (take(&c, ','));
    return take(&c, '}') ? NULL : no_object;
}
