// Package devmem receives TCP payloads into device memory, which Linux 6.12 and later supports
// with a capable NIC: the headers of a packet go to the host, and its payload goes directly
// into a dmabuf that is bound to a receive queue. Since Linux 6.16 the NIC can send from one, too.
//
// [Check] tests the requirements of an interface in order and returns the first that fails,
// with a remedy. [Open] does the same and keeps the binding. [Control] parses where recvmsg
// has put the bytes, and [Tokens] returns them to the kernel. A [Transmitter] sends from a
// dmabuf of [Binding.BindTX].
//
// The sources are in the kernel: Documentation/networking/devmem.rst, include/uapi/linux
// (netdev.h, ethtool_netlink.h, uio.h, udmabuf.h), and net/core/sock.c for the limits. Tests cover
// the requirements, the parser and the tokens, and the real kernel's refusals. Receiving into a
// dmabuf and sending from one follow the documentation and have not run on a NIC yet.
package devmem
