// Package devmem receives TCP payloads into device memory, which Linux 6.12 and later supports
// with a capable NIC: the headers of a packet go to the host, and its payload goes directly
// into a dmabuf that is bound to a receive queue.
//
// [Check] tests the requirements of an interface in order and returns the first that fails,
// with a remedy. [Open] does the same and keeps the binding. [Control] parses where recvmsg
// has put the bytes, and [Tokens] returns them to the kernel.
//
// The sources are in the kernel: Documentation/networking/devmem.rst, the netlink
// specifications netdev.yaml and ethtool.yaml, include/uapi/linux/uio.h and udmabuf.h, and
// net/core/sock.c for the limits. Tests cover the requirements, the parser and the tokens.
// Receiving into a dmabuf follows the documentation and has not run on a NIC yet.
package devmem
