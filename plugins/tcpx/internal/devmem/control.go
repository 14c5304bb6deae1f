package devmem

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// Piece is what one control message tells of: bytes of the stream, in order.
type Piece struct {
	Offset uint64 // in the dmabuf; without meaning where Linear
	Size   uint32 // bytes
	Token  uint32 // for giving it back; without meaning where Linear
	Linear bool   // the bytes are not in the dmabuf, but in the buffers that recvmsg was given
}

// The errors of [Control].
var (
	// ErrControl: the control messages are not what the kernel writes.
	ErrControl = errors.New("malformed control message")
	// ErrBinding: the bytes are in another dmabuf. Flows are steered to a queue that
	// somebody else has bound.
	ErrBinding = errors.New("a piece is in another binding's dmabuf: the flow is steered to the wrong queue")
	// ErrPieces: there are more pieces than room for them.
	ErrPieces = errors.New("more pieces than there is room for")
)

const (
	controlHeader    = 16 // struct cmsghdr on a 64-bit machine: u64 length, int level, int type
	controlAlignment = 8
	dmabufMessage    = 24 // struct dmabuf_cmsg: u64 offset, u32 size, token, dmabuf_id, flags
	// controlSpace is what one piece takes of a control buffer.
	controlSpace = controlHeader + dmabufMessage
)

// Control reads the control messages that recvmsg returned, and writes the pieces that
// they tell of to pieces, n of them. binding is the ID that the dmabuf must have, size
// the dmabuf's. Messages of other kinds are passed over. It does not allocate.
//
// Errors: ErrControl, ErrBinding, ErrPieces.
func Control(control []byte, binding uint32, size uint64, pieces []Piece) (n int, err error) {
	for len(control) >= controlHeader {
		length := binary.NativeEndian.Uint64(control)
		level := binary.NativeEndian.Uint32(control[8:])
		kind := binary.NativeEndian.Uint32(control[12:])
		if length < controlHeader || length > uint64(len(control)) {
			return n, ErrControl
		}
		if level == unix.SOL_SOCKET && (kind == unix.SCM_DEVMEM_DMABUF || kind == unix.SCM_DEVMEM_LINEAR) {
			if length < controlSpace {
				return n, ErrControl
			}
			if n == len(pieces) {
				return n, ErrPieces
			}
			body := control[controlHeader:]
			p := Piece{Offset: binary.NativeEndian.Uint64(body), Size: binary.NativeEndian.Uint32(body[8:]),
				Token: binary.NativeEndian.Uint32(body[12:]), Linear: kind == unix.SCM_DEVMEM_LINEAR}
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
		control = control[min((length+controlAlignment-1)&^(controlAlignment-1), uint64(len(control))):]
	}
	if len(control) > 0 {
		return n, ErrControl
	}
	return n, nil
}
