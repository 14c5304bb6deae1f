package grpc

import (
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// A message of a stream is a frame: a header and the payload. A unary call needs no header.
const (
	headerSize = 9 // the kind and the token

	// codecOverhead is what the codec protobuf adds at most.
	codecOverhead = 16
)

// kind is the kind of a frame, or of an entry in a worker's inbox.
type kind uint8

const (
	kindCall kind = iota + 1
	kindReply
	kindLost // the connection has ended; not a frame
)

func putHeader(b []byte, k kind, token uint64) {
	b[0] = byte(k)
	binary.LittleEndian.PutUint64(b[1:], token)
}

var errFrame = errors.New("a frame that no peer sends")

// parseFrame returns the parts of a frame of at most limit bytes of payload.
func parseFrame(b []byte, limit int) (k kind, token uint64, payload []byte, err error) {
	if len(b) < headerSize || len(b)-headerSize > limit || kind(b[0]) != kindCall &&
		kind(b[0]) != kindReply {
		return 0, 0, nil, errFrame
	}
	return kind(b[0]), binary.LittleEndian.Uint64(b[1:]), b[headerSize:], nil
}

// codec carries the bytes of slots and messages, as they are or in a message of protobuf. It
// implements [encoding.CodecV2].
type codec struct{ protobuf bool }

var protobuf = encoding.GetCodecV2(protocodec.Name)

// Name implements [encoding.CodecV2].
func (c codec) Name() string {
	if c.protobuf {
		return protocodec.Name
	}
	return codecRaw
}

// Marshal implements [encoding.CodecV2]. The raw codec lends a slot's bytes to grpc-go, which gives
// them back with [slot.Put] once it has written them.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	s, ok := v.(*slot)
	if !ok {
		return nil, fmt.Errorf("cannot send a %T", v)
	}
	if !c.protobuf {
		return mem.BufferSlice{mem.NewBuffer(&s.data, s)}, nil
	}
	b, err := protobuf.Marshal(wrapperspb.Bytes(s.data))
	s.Put(nil)
	return b, err
}

// Unmarshal implements [encoding.CodecV2]. The raw codec keeps grpc-go's buffer, and copies only a
// message that arrives in several buffers.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*message)
	if !ok {
		return fmt.Errorf("cannot receive a %T", v)
	}
	switch {
	case c.protobuf:
		var b wrapperspb.BytesValue
		if err := protobuf.Unmarshal(data, &b); err != nil {
			return err
		}
		m.bytes, m.copies = b.Value, 1
		if len(data) > 1 {
			m.copies++ // protobuf needs one contiguous buffer
		}
	case len(data) == 1:
		data[0].Ref()
		m.buffer, m.bytes = data[0], data[0].ReadOnlyData()
	default:
		m.buffer = data.MaterializeToBuffer(mem.DefaultBufferPool())
		m.bytes, m.copies = m.buffer.ReadOnlyData(), 1
	}
	return nil
}
