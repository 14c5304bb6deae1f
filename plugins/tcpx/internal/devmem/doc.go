// Package devmem receives TCP payloads into device memory, as Linux 6.12 and later can
// with a capable NIC: the headers of a packet go to the host, its payload goes straight
// into a dmabuf that is bound to a receive queue.
//
// [Climb] finds out whether an interface can, rung by rung, and says at which it ends
// and what would help. [Open] climbs to the end and keeps the binding. [Control] reads
// what recvmsg says of where bytes are, and [Tokens] gives them back.
//
// The sources are the kernel's: Documentation/networking/devmem.rst, the netlink
// specifications netdev.yaml and ethtool.yaml, include/uapi/linux/uio.h and udmabuf.h,
// and net/core/sock.c for the limits. The ladder, the parser and the tokens are tested;
// that bytes arrive in a dmabuf is written to the documentation and has run on no NIC
// yet.
package devmem
