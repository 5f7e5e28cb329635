/* A STAND-IN for NVIDIA's libnvidia-ml.so.1, for tests only: it knows no card but those in a text file.
 *
 * The file is named by VGPU_STAND_IN_NVML and read anew at every call, so a test plays
 * what happens to cards by replacing it. A line is a word and fields:
 *
 *   init error=9                        nvmlInit answers that error
 *   faults fifo=/path                   a line "UUID XID" written there is an event,
 *                                       "error NUMBER" makes the wait answer that error
 *   events error=3                      NVML tells of no events
 *   counting error=18                   counting the cards answers that error
 *   gate file=/path                     counting the cards blocks while that file is there
 *   card uuid=GPU-a;name=NVIDIA A10;memory_mib=24576;numa=1
 *        ;state=15      every question about the card is answered by that error
 *        ;mig_room=7    it has MIG mode; ;mig=1 it is on
 *        ;recovery=1    the driver's recovery action; left out, the driver tells of none
 *        ;events=0      it reports no faults
 *   instance card=GPU-a;uuid=MIG-x;name=NVIDIA A100 MIG 1g.5gb
 *
 * memory_mib left out: NVML tells of no memory. Names, error numbers and layouts are
 * those of NVML's documentation, as far as the bindings for Python use them.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, NOT_INITIALIZED = 1, BAD_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6,
       TIMEOUT = 10, LOST = 15, UNKNOWN = 999 };
enum { XID_EVENT = 8, RECOVERY_ACTION_FIELD = 230, FIRST_INSTANCE = 1000, LINE = 512 };

typedef int (*reader)(const char *word, const char *fields, void *into);

/* Calls `each` with every line of the file until it returns other than 0. */
static int read_lines(reader each, void *into) {
    const char *name = getenv("VGPU_STAND_IN_NVML");
    FILE *file = name ? fopen(name, "r") : NULL;
    char line[LINE];
    int answer = 0;
    if (!file) return UNKNOWN;
    while (!answer && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *fields = strchr(line, ' ');
        if (!fields) continue;
        *fields++ = 0;
        answer = each(line, fields, into);
    }
    fclose(file);
    return answer;
}

/* Copies a field's value; returns whether the line has that field. */
static int field(const char *fields, const char *name, char *value, size_t size) {
    size_t length = strlen(name);
    for (const char *at = fields; at; at = strchr(at, ';')) {
        if (*at == ';') at++;
        if (strncmp(at, name, length) || at[length] != '=') continue;
        snprintf(value, size, "%.*s", (int)strcspn(at + length + 1, ";"), at + length + 1);
        return 1;
    }
    return 0;
}

static long number(const char *fields, const char *name, long otherwise) {
    char value[32];
    return field(fields, name, value, sizeof value) ? atol(value) : otherwise;
}

/* ---- which line ---- */

struct wanted { const char *word; int place; char fields[LINE]; int seen; };

static int nth(const char *word, const char *fields, void *into) {
    struct wanted *wanted = into;
    if (strcmp(word, wanted->word) || wanted->seen++ != wanted->place) return 0;
    snprintf(wanted->fields, sizeof wanted->fields, "%s", fields);
    return 1;
}

static int find(const char *word, int place, struct wanted *found) {
    *found = (struct wanted){.word = word, .place = place};
    return read_lines(nth, found) == 1;
}

static int count(const char *word) {
    struct wanted none = {.word = word, .place = -1};
    read_lines(nth, &none);
    return none.seen;
}

/* A handle is the card's place from 1, or an instance's from FIRST_INSTANCE. */
static int line_of(void *device, struct wanted *found) {
    intptr_t place = (intptr_t)device;
    if (place >= FIRST_INSTANCE) return find("instance", (int)(place - FIRST_INSTANCE), found) ? OK : LOST;
    if (!find("card", (int)place - 1, found)) return LOST;
    return (int)number(found->fields, "state", OK);
}

/* ---- the library ---- */

static int opened;
static int fifo = -1;

int nvmlInitWithFlags(unsigned flags) {
    struct wanted found;
    (void)flags;
    if (!getenv("VGPU_STAND_IN_NVML")) return UNKNOWN;
    if (find("init", 0, &found)) return (int)number(found.fields, "error", UNKNOWN);
    opened++;
    return OK;
}

int nvmlShutdown(void) {
    if (!opened) return NOT_INITIALIZED;
    opened--;
    return OK;
}

const char *nvmlErrorString(int error) {
    (void)error;
    return "an error of the stand-in";
}

static void wait_at_gate(void) {
    struct wanted found;
    char name[256];
    if (find("gate", 0, &found) && field(found.fields, "file", name, sizeof name))
        while (!access(name, F_OK)) poll(NULL, 0, 2);
}

int nvmlDeviceGetCount_v2(unsigned *number_of) {
    struct wanted found;
    if (!opened) return NOT_INITIALIZED;
    wait_at_gate();
    if (find("counting", 0, &found)) return (int)number(found.fields, "error", UNKNOWN);
    *number_of = (unsigned)count("card");
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    struct wanted found;
    if (!opened) return NOT_INITIALIZED;
    if (!find("card", (int)index, &found)) return BAD_ARGUMENT;
    *device = (void *)(intptr_t)(index + 1);
    return line_of(*device, &found);
}

static int text(void *device, const char *name, char *value, unsigned size) {
    struct wanted found;
    int error = line_of(device, &found);
    if (error) return error;
    return field(found.fields, name, value, size) ? OK : NOT_FOUND;
}

int nvmlDeviceGetUUID(void *device, char *value, unsigned size) { return text(device, "uuid", value, size); }

int nvmlDeviceGetName(void *device, char *value, unsigned size) { return text(device, "name", value, size); }

struct memory { unsigned long long total, free, used; };

int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory) {
    struct wanted found;
    int error = line_of(device, &found);
    long mib = error ? -1 : number(found.fields, "memory_mib", -1);
    if (error) return error;
    if (mib < 0) return NOT_SUPPORTED;
    *memory = (struct memory){.total = (unsigned long long)mib << 20, .free = (unsigned long long)mib << 20};
    return OK;
}

int nvmlDeviceGetMemoryAffinity(void *device, unsigned words, unsigned long *set, unsigned scope) {
    struct wanted found;
    int error = line_of(device, &found);
    long node = error ? -1 : number(found.fields, "numa", -1);
    (void)scope;
    if (error) return error;
    if (node < 0 || (unsigned)node / 64 >= words) return NOT_SUPPORTED;
    memset(set, 0, words * sizeof *set);
    set[node / 64] = 1UL << (node % 64);
    return OK;
}

int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending) {
    struct wanted found;
    int error = line_of(device, &found);
    if (error) return error;
    if (number(found.fields, "mig_room", 0) == 0) return NOT_SUPPORTED;
    *current = *pending = (unsigned)number(found.fields, "mig", 0);
    return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *room) {
    struct wanted found;
    int error = line_of(device, &found);
    if (error) return error;
    *room = (unsigned)number(found.fields, "mig_room", 0);
    return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **instance) {
    struct wanted card, each;
    char uuid[96], of[96];
    int error = line_of(device, &card);
    if (error) return error;
    field(card.fields, "uuid", uuid, sizeof uuid);
    for (int place = 0; find("instance", place, &each); place++) {
        if (!field(each.fields, "card", of, sizeof of) || strcmp(of, uuid) || index--) continue;
        *instance = (void *)(intptr_t)(FIRST_INSTANCE + place);
        return OK;
    }
    return NOT_FOUND;
}

struct field_value {
    uint32_t id, scope;
    int64_t timestamp, latency;
    unsigned type;
    int error;
    union { double d; unsigned u; unsigned long long ull; } value;
};

int nvmlDeviceGetFieldValues(void *device, int how_many, struct field_value *values) {
    struct wanted found;
    int error = line_of(device, &found);
    if (error) return error;
    for (int place = 0; place < how_many; place++) {
        long action = number(found.fields, "recovery", -1);
        int told = values[place].id == RECOVERY_ACTION_FIELD && action >= 0;
        values[place].error = told ? OK : NOT_SUPPORTED;
        values[place].type = 1;
        values[place].value.u = told ? (unsigned)action : 0;
    }
    return OK;
}

/* ---- events ---- */

int nvmlEventSetCreate(void **set) {
    struct wanted found;
    char name[256];
    if (find("events", 0, &found)) return (int)number(found.fields, "error", UNKNOWN);
    /* Opened once: what was written while nobody listened is not lost, unlike in the real one. */
    if (fifo < 0 && find("faults", 0, &found) && field(found.fields, "fifo", name, sizeof name))
        fifo = open(name, O_RDWR | O_NONBLOCK | O_CLOEXEC); /* RDWR: it never ends */
    *set = (void *)1;
    return OK;
}

int nvmlEventSetFree(void *set) {
    (void)set;
    return OK;
}

int nvmlDeviceGetSupportedEventTypes(void *device, unsigned long long *types) {
    struct wanted found;
    int error = line_of(device, &found);
    if (error) return error;
    *types = number(found.fields, "events", 1) ? XID_EVENT : 0;
    return OK;
}

int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set) {
    struct wanted found;
    (void)types;
    (void)set;
    return line_of(device, &found);
}

struct event { void *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; };

/* Reads one line; whoever writes does so in one piece. */
static int read_fault(char *line, size_t size) {
    size_t length = 0;
    while (length + 1 < size && read(fifo, line + length, 1) == 1 && line[length] != '\n') length++;
    line[length] = 0;
    return length > 0;
}

int nvmlEventSetWait_v2(void *set, struct event *event, unsigned limit_ms) {
    struct pollfd waited = {.fd = fifo, .events = POLLIN};
    char line[128], uuid[96], of[96];
    struct wanted found;
    unsigned long long xid;
    (void)set;
    if (poll(&waited, 1, (int)limit_ms) <= 0 || !read_fault(line, sizeof line)) return TIMEOUT;
    if (sscanf(line, "%95s %llu", uuid, &xid) != 2) return UNKNOWN;
    if (!strcmp(uuid, "error")) return (int)xid;
    *event = (struct event){.device = (void *)(intptr_t)(FIRST_INSTANCE - 1), .type = XID_EVENT, .data = xid};
    for (int place = 0; find("card", place, &found); place++)
        if (field(found.fields, "uuid", of, sizeof of) && !strcmp(of, uuid))
            event->device = (void *)(intptr_t)(place + 1);
    return OK;
}
