package devmemtest

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Message returns a control message with a body, padded for another one after it.
func Message(level, kind int, body []byte) []byte {
	b := make([]byte, unix.CmsgSpace(len(body)))
	binary.NativeEndian.PutUint64(b, uint64(unix.CmsgLen(len(body))))
	binary.NativeEndian.PutUint32(b[8:], uint32(level))
	binary.NativeEndian.PutUint32(b[12:], uint32(kind))
	copy(b[unix.CmsgLen(0):], body)
	return b
}

// Dmabuf returns the message for bytes in a dmabuf: a struct dmabuf_cmsg.
func Dmabuf(offset uint64, size, token, id uint32) []byte {
	return Message(unix.SOL_SOCKET, unix.SCM_DEVMEM_DMABUF, body(offset, size, token, id))
}

// Linear returns the message for bytes in the buffers of recvmsg.
func Linear(size uint32) []byte {
	return Message(unix.SOL_SOCKET, unix.SCM_DEVMEM_LINEAR, body(0, size, 0, 0))
}

func body(offset uint64, size, token, id uint32) []byte {
	b := make([]byte, 24)
	binary.NativeEndian.PutUint64(b, offset)
	binary.NativeEndian.PutUint32(b[8:], size)
	binary.NativeEndian.PutUint32(b[12:], token)
	binary.NativeEndian.PutUint32(b[16:], id)
	return b
}
