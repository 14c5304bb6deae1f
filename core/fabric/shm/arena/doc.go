// Package arena allocates blocks of shared memory that was mapped once, so that an allocation needs
// no system call.
//
// All threads and processes that map the memory allocate and free in the same [Arena]. There are no
// locks: each step is one atomic operation, and a process may be killed between any two of them.
// The others go on without the blocks that it had allocated, and without the one that it was taking
// or returning.
//
// Blocks have sizes that are powers of two. A freed block goes to the list of its size and is used
// again for that size only; fresh blocks come from the part of the memory that was never used. A
// [Bump] is simpler still: it only advances, and frees everything at once.
package arena
