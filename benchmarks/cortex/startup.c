/* What a Cortex-M4 needs before main: where the stack ends, where to begin, and the unit for float switched on. */
#include <stdint.h>

extern uint32_t stack_end;
extern void _start(void); /* of newlib: clears and fills memory, then calls main */

static void stop(void) {
    for (;;) {
    }
}

static void reset(void) {
    *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20; /* CPACR: coprocessors 10 and 11 */
    __asm volatile("dsb\n isb");
    _start();
    stop();
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    &stack_end, (void *)reset, (void *)stop, (void *)stop, (void *)stop, (void *)stop, (void *)stop,
};
