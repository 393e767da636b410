/* A source of a stream in C: docs/streams-wire.md, written out.
 *
 *   cc -O2 -o sender sender.c
 *   sender -s STREAM -i INCARNATION [-k ID:HEX] [-l LEVELS] [-b BYTES] HOST:PORT...  < messages
 *
 * Each line of the standard input is a message: PRIORITY TOPIC PAYLOAD, separated by one space; a topic of
 * "-" is none. Lines that come together leave together, in datagrams of at most BYTES. Each message carries
 * the distance to the last one of each level but the lowest. While there is nothing to send, a heartbeat
 * leaves every 100 ms; the last one says that the source has ended.
 *
 * It sends each datagram to every member and keeps nothing: what is lost is lost. It needs no library.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- SHA-256 and HMAC (FIPS 180-4, RFC 2104) */

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turned(uint32_t x, int by) { return x >> by | x << (32 - by); }

static void block(uint32_t h[8], const uint8_t *p)
{
    uint32_t w[64], a[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | p[4 * i + 1] << 16 | p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t x = w[i - 15], y = w[i - 2];
        w[i] = w[i - 16] + (turned(x, 7) ^ turned(x, 18) ^ x >> 3) + w[i - 7] +
               (turned(y, 17) ^ turned(y, 19) ^ y >> 10);
    }
    memcpy(a, h, sizeof a);
    for (int i = 0; i < 64; i++) {
        uint32_t one = a[7] + (turned(a[4], 6) ^ turned(a[4], 11) ^ turned(a[4], 25)) +
                       ((a[4] & a[5]) ^ (~a[4] & a[6])) + K[i] + w[i];
        uint32_t two = (turned(a[0], 2) ^ turned(a[0], 13) ^ turned(a[0], 22)) +
                       ((a[0] & a[1]) ^ (a[0] & a[2]) ^ (a[1] & a[2]));
        memmove(a + 1, a, 7 * sizeof *a);
        a[4] += one;
        a[0] = one + two;
    }
    for (int i = 0; i < 8; i++)
        h[i] += a[i];
}

/* The digest of two pieces, one after the other; the first is a whole number of blocks. */
static void sha256(const uint8_t *head, size_t head_bytes, const uint8_t *rest, size_t bytes, uint8_t out[32])
{
    uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                     0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    uint8_t last[128] = {0};
    uint64_t bits = 8 * (uint64_t)(head_bytes + bytes);
    size_t done = 0, left;
    for (size_t at = 0; at < head_bytes; at += 64)
        block(h, head + at);
    for (; done + 64 <= bytes; done += 64)
        block(h, rest + done);
    left = bytes - done;
    memcpy(last, rest + done, left);
    last[left] = 0x80;
    size_t end = left < 56 ? 64 : 128;
    for (int i = 0; i < 8; i++)
        last[end - 1 - i] = (uint8_t)(bits >> 8 * i);
    for (size_t at = 0; at < end; at += 64)
        block(h, last + at);
    for (int i = 0; i < 32; i++)
        out[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
}

static void hmac(const uint8_t key[32], const uint8_t *data, size_t bytes, uint8_t out[32])
{
    uint8_t inner[64], outer[64], digest[32];
    for (int i = 0; i < 64; i++) {
        uint8_t each = i < 32 ? key[i] : 0;
        inner[i] = each ^ 0x36;
        outer[i] = each ^ 0x5c;
    }
    sha256(inner, 64, data, bytes, digest);
    sha256(outer, 64, digest, 32, out);
}

/* --- the wire */

enum { BATCH = 1, HEARTBEAT = 2, HEADER = 28, HEAD = 6, TAG = 16, COUNT_MAX = 512, MEMBERS_MAX = 64 };
enum { TOPICS = 0x10, LEVELS_MAX = 15, LONGEST = 65507, LINE_MAX_ = 60000 };

static struct sockaddr_in members[MEMBERS_MAX];
static int member_count, wire;
static uint32_t stream, key_id;
static uint64_t incarnation, highest, last_of[LEVELS_MAX + 1];
static uint8_t key[32];
static int levels = 2;
static size_t longest = 1472;

struct message {
    int priority;
    char topic[201];
    uint8_t *payload;
    size_t bytes;
    uint16_t distance[LEVELS_MAX];
};
static struct message batch[COUNT_MAX];
static int count;
static size_t batch_bytes;

static uint8_t *put(uint8_t *at, uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        *at++ = (uint8_t)(value >> 8 * i);
    return at;
}

static void send_out(uint8_t *data, uint8_t *end, int kind, uint64_t number)
{
    uint8_t *at = data;
    *at++ = 'H';
    *at++ = 'F';
    *at++ = 1;
    *at++ = (uint8_t)kind;
    at = put(at, key_id, 4);
    at = put(at, stream, 4);
    at = put(at, incarnation, 8);
    put(at, number, 8);
    if (key_id) {
        uint8_t digest[32];
        hmac(key, data, (size_t)(end - data), digest);
        memcpy(end, digest, TAG);
        end += TAG;
    }
    for (int i = 0; i < member_count; i++)
        if (sendto(wire, data, (size_t)(end - data), 0, (struct sockaddr *)&members[i], sizeof members[i]) < 0 &&
            errno != ECONNREFUSED)
            perror("sendto");
}

/* How far back the last message of a level is, seen from the next one: 0 for none, 0xFFFF for too far. */
static uint16_t distance(int level)
{
    if (!last_of[level])
        return 0;
    uint64_t far = highest + 1 - last_of[level];
    return far > 65533 ? 0xFFFF : (uint16_t)far;
}

static void flush_batch(void)
{
    static uint8_t data[LONGEST + 4096];
    uint8_t *at = data + HEADER, *topic_count;
    uint8_t index[COUNT_MAX];
    int topics = 0, of_topic[256];
    if (!count)
        return;
    at = put(at, (uint64_t)count, 2);
    at = put(at, TOPICS, 2);
    at = put(at, (uint64_t)(levels - 1), 1);
    at = put(at, 0, 1);
    for (int i = 0; i < count; i++)
        *at++ = (uint8_t)batch[i].priority;
    for (int level = 0; level < levels - 1; level++)
        for (int i = 0; i < count; i++)
            at = put(at, batch[i].distance[level], 2);
    topic_count = at++;
    for (int i = 0; i < count; i++) {
        int found = 0;
        while (found < topics && strcmp(batch[of_topic[found]].topic, batch[i].topic))
            found++;
        if (found == topics) {
            size_t bytes = strlen(batch[i].topic);
            of_topic[topics++] = i;
            at = put(at, bytes, 2);
            memcpy(at, batch[i].topic, bytes);
            at += bytes;
        }
        index[i] = (uint8_t)found;
    }
    *topic_count = (uint8_t)topics;
    if (topics > 1) {
        memcpy(at, index, (size_t)count);
        at += count;
    }
    for (int i = 0; i < count; i++)
        at = put(at, batch[i].bytes, 2);
    for (int i = 0; i < count; i++) {
        memcpy(at, batch[i].payload, batch[i].bytes);
        at += batch[i].bytes;
        free(batch[i].payload);
    }
    send_out(data, at, BATCH, highest - (uint64_t)count + 1);
    count = 0;
    batch_bytes = 0;
}

static void heartbeat(int is_last)
{
    uint8_t data[HEADER + 11 + 2 * LEVELS_MAX + TAG], *at = data + HEADER;
    at = put(at, highest + 1, 8); /* nothing is kept */
    at = put(at, (uint64_t)is_last, 1);
    at = put(at, (uint64_t)(levels - 1), 1);
    at = put(at, 0, 1);
    for (int level = 0; level < levels - 1; level++)
        at = put(at, distance(level), 2);
    send_out(data, at, HEARTBEAT, highest);
}

static void message_line(char *line)
{
    char *topic = strchr(line, ' '), *payload = topic ? strchr(topic + 1, ' ') : NULL;
    int priority = atoi(line);
    if (!payload || priority < 0 || priority >= levels || payload - topic - 1 > 200) {
        fprintf(stderr, "not a message: %.60s\n", line);
        exit(2);
    }
    *payload++ = 0;
    topic++;
    if (!strcmp(topic, "-"))
        topic = "";
    size_t bytes = strlen(payload), more = 1 + 2 * (size_t)(levels - 1) + 2 + strlen(topic) + 1 + 2 + bytes;
    if (count == 200 || (count && batch_bytes + more + HEADER + HEAD + 1 + TAG > longest))
        flush_batch();
    struct message *made = &batch[count];
    made->priority = priority;
    strcpy(made->topic, topic);
    made->payload = malloc(bytes + 1);
    memcpy(made->payload, payload, bytes);
    made->bytes = bytes;
    for (int level = 0; level < levels - 1; level++)
        made->distance[level] = distance(level);
    highest++;
    if (priority < levels - 1)
        last_of[priority] = highest;
    batch_bytes += more;
    count++;
}

static void add_member(const char *text)
{
    char host[64];
    int port;
    if (member_count == MEMBERS_MAX || sscanf(text, "%63[^:]:%d", host, &port) != 2 ||
        !inet_pton(AF_INET, host, &members[member_count].sin_addr)) {
        fprintf(stderr, "not an address: %s\n", text);
        exit(2);
    }
    members[member_count].sin_family = AF_INET;
    members[member_count++].sin_port = htons((uint16_t)port);
}

static void read_key(const char *text)
{
    char *colon;
    key_id = (uint32_t)strtoul(text, &colon, 10);
    if (!key_id || *colon != ':' || strlen(colon + 1) != 64) {
        fprintf(stderr, "a key is ID:HEX, with 64 hexadecimal digits\n");
        exit(2);
    }
    for (int i = 0; i < 32; i++) {
        unsigned each;
        if (sscanf(colon + 1 + 2 * i, "%2x", &each) != 1)
            exit(2);
        key[i] = (uint8_t)each;
    }
}

int main(int argc, char **argv)
{
    static char kept[LINE_MAX_ + 1];
    size_t have = 0;
    int option;
    while ((option = getopt(argc, argv, "s:i:k:l:b:")) != -1)
        switch (option) {
        case 's': stream = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 'i': incarnation = strtoull(optarg, NULL, 10); break;
        case 'k': read_key(optarg); break;
        case 'l': levels = atoi(optarg); break;
        case 'b': longest = (size_t)atoi(optarg); break;
        default: return 2;
        }
    if (levels < 1 || levels > LEVELS_MAX + 1 || longest < 512 || longest > 65000) {
        fprintf(stderr, "1 to 16 levels, 512 to 65000 bytes\n");
        return 2;
    }
    for (; optind < argc; optind++)
        add_member(argv[optind]);
    wire = socket(AF_INET, SOCK_DGRAM, 0);
    heartbeat(0);
    for (;;) {
        struct pollfd input = {0, POLLIN, 0};
        int ready = poll(&input, 1, count ? 0 : 100);
        if (!ready) {
            if (count)
                flush_batch();
            else
                heartbeat(0);
            continue;
        }
        ssize_t bytes = read(0, kept + have, sizeof kept - 1 - have);
        if (bytes <= 0)
            break;
        have += (size_t)bytes;
        char *line = kept, *end;
        while ((end = memchr(line, '\n', have - (size_t)(line - kept)))) {
            *end = 0;
            message_line(line);
            line = end + 1;
        }
        have -= (size_t)(line - kept);
        memmove(kept, line, have);
        if (have == sizeof kept - 1) {
            fprintf(stderr, "a line is too long\n");
            return 2;
        }
    }
    flush_batch();
    heartbeat(1);
    return 0;
}
