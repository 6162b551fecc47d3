// Answers as libcuda does, without a driver: two GPUs, numbered after CUDA_VISIBLE_DEVICES as the real one does.
// STAND_IN_CUDA_INIT is what cuInit returns; STAND_IN_CUDA_MAJOR the compute capability's first digit.
#include <stdlib.h>
#include <string.h>

static int visible[2], count;

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

int cuInit(unsigned flags) {
    (void)flags;
    int failure = number("STAND_IN_CUDA_INIT", 0);
    if (failure) return failure;
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    count = 0;
    if (!list) {
        visible[0] = 0, visible[1] = 1, count = 2;
    } else {
        for (const char *at = list; *at && count < 2; at++)
            if (*at == '0' || *at == '1') visible[count++] = *at - '0';
    }
    return count ? 0 : 100;
}

int cuDriverGetVersion(int *version) {
    *version = 13000;
    return 0;
}

int cuDeviceGetCount(int *out) {
    *out = count;
    return 0;
}

int cuDeviceGet(int *device, int ordinal) {
    *device = visible[ordinal];
    return 0;
}

int cuDeviceGetName(char *name, int size, int device) {
    strncpy(name, device ? "Second Stand-in" : "First Stand-in", (size_t)size);
    return number("STAND_IN_CUDA_LOST", -1) == device ? 101 : 0;
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    for (int i = 0; i < 16; i++) uuid[i] = (unsigned char)(i + 16 * device);
    return 0;
}

int cuDeviceGetAttribute(int *value, int which, int device) {
    (void)device;
    switch (which) {
    case 16: *value = 132; return 0;
    case 75: *value = number("STAND_IN_CUDA_MAJOR", 9); return 0;
    case 76: *value = 0; return 0;
    case 81: *value = 233472; return 0;
    case 97: *value = 232448; return 0;
    case 38: *value = 52428800; return 0;
    }
    return 1;
}
