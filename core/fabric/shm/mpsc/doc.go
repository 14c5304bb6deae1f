// Package mpsc is a bounded queue of small messages in shared memory, with any number of producers
// and one consumer, in threads or processes.
//
// Producers contend for one counter, and a producer that dies between claiming a slot and filling
// it stops the queue for good: the consumer cannot tell it from a slow one. A mesh of
// single-producer rings (package ring) has neither problem. The queue is here to be measured beside
// such a mesh.
package mpsc
