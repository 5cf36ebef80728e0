/* Count the instructions of a step: QEMU's clock goes on by one nanosecond for each, and the timer counts 40 of them. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "tracker.h"

#define CONTROL (*(volatile uint32_t *)0xE000E010u)
#define RELOAD (*(volatile uint32_t *)0xE000E014u)
#define CURRENT (*(volatile uint32_t *)0xE000E018u)
enum { STEPS = 1000, PER_TICK = 40, LARGEST = 0xFFFFFF };

static float y[2];

/* Noise enough for a filter: a counter turned over. */
static float noise(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) * (6.0f / 16777216.0f) - 3.0f;
}

static uint32_t ticks(int steps_too) {
    tracker_state state;
    tracker_report report;
    uint32_t seed = 1;
    tracker_init(&state);
    CURRENT = 0;
    const uint32_t begun = CURRENT;
    for (int t = 0; t < STEPS; t++) {
        y[0] = noise(&seed);
        y[1] = t % 20 == 7 ? 100.0f : noise(&seed);
        if (steps_too) {
            tracker_step(&state, y, &report);
        }
    }
    return (begun - CURRENT) & LARGEST;
}

int main(void) {
    RELOAD = LARGEST;
    CONTROL = 5; /* on, by the clock of the processor, without interrupts */
    const uint32_t all = ticks(1), rest = ticks(0);
    printf("%lu\n", (unsigned long)((all - rest) * PER_TICK / STEPS));
    return 0;
}
