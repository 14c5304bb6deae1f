package devmem

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// Piece is the content of one control message: the next bytes of the stream.
type Piece struct {
	Offset uint64 // in the dmabuf; unused if Linear
	Size   uint32 // bytes
	Token  uint32 // for Tokens.Add; unused if Linear
	Linear bool   // the bytes are in the buffers of recvmsg, not in the dmabuf
}

// The errors of [Control].
var (
	// ErrControl means that the control messages are malformed.
	ErrControl = errors.New("malformed control message")
	// ErrBinding means that the bytes are in another dmabuf: the flow is steered to a
	// queue with another binding.
	ErrBinding = errors.New(
		"a piece is in another binding's dmabuf: the flow is steered to the wrong queue")
	// ErrPieces means that there are more pieces than the caller has room for.
	ErrPieces = errors.New("more pieces than there is room for")
)

const (
	controlHeader    = 16 // struct cmsghdr on a 64-bit machine: u64 length, int level, int type
	controlAlignment = 8
	dmabufMessage    = 24 // struct dmabuf_cmsg: u64 offset, u32 size, token, dmabuf_id, flags
	// controlSpace is the size of one piece in a control buffer.
	controlSpace = controlHeader + dmabufMessage
)

// Control parses the control messages of recvmsg and writes n pieces to pieces. binding is the
// ID that the dmabuf must have, and size the size of the dmabuf. Control skips messages of
// other kinds and does not allocate. It returns ErrControl, ErrBinding or ErrPieces.
func Control(control []byte, binding uint32, size uint64, pieces []Piece) (n int, err error) {
	for len(control) >= controlHeader {
		length := binary.NativeEndian.Uint64(control)
		level := binary.NativeEndian.Uint32(control[8:])
		kind := binary.NativeEndian.Uint32(control[12:])
		if length < controlHeader || length > uint64(len(control)) {
			return n, ErrControl
		}
		if level == unix.SOL_SOCKET && (kind == unix.SCM_DEVMEM_DMABUF ||
			kind == unix.SCM_DEVMEM_LINEAR) {
			if length < controlSpace {
				return n, ErrControl
			}
			if n == len(pieces) {
				return n, ErrPieces
			}
			body := control[controlHeader:]
			p := Piece{Offset: binary.NativeEndian.Uint64(body),
				Size:   binary.NativeEndian.Uint32(body[8:]),
				Token:  binary.NativeEndian.Uint32(body[12:]),
				Linear: kind == unix.SCM_DEVMEM_LINEAR}
			switch {
			case p.Linear:
			case binary.NativeEndian.Uint32(body[16:]) != binding:
				return n, ErrBinding
			case uint64(p.Size) > size || p.Offset > size-uint64(p.Size):
				return n, ErrControl
			}
			pieces[n] = p
			n++
		}
		control = control[min((length+controlAlignment-1)&^(controlAlignment-1),
			uint64(len(control))):]
	}
	if len(control) > 0 {
		return n, ErrControl
	}
	return n, nil
}
