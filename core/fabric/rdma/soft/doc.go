// Package soft is an RDMA device in software, over shared memory between processes of one host. It
// keeps the rules of verbs; see package rdma.
package soft
