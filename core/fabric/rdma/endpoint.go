package rdma

import (
	"encoding/binary"
	"encoding/json"
	"errors"

	"transportbench/core/fabric/shm"
)

// Endpoint is what a peer needs to reach a queue pair, for its Connect or AddPeer. It can
// be sent as JSON, or in binary if it has to fit into a datagram.
type Endpoint struct {
	Provider Provider      `json:"provider"`
	Type     QueuePairType `json:"type"`
	Number   uint32        `json:"qpn"`
	Sequence uint32        `json:"psn"`
	QKey     uint32        `json:"qkey,omitempty"`
	LID      uint16        `json:"lid,omitempty"`
	GID      []byte        `json:"gid,omitempty"`
	MTU      int           `json:"mtu"`
	Soft     *SoftEndpoint `json:"soft,omitempty"`
}

// endpointSize is the length of an endpoint in binary without its soft part.
const endpointSize = 36

// MarshalBinary encodes an endpoint: 36 bytes for verbs, some hundred more for the soft
// device. The layout is little-endian: provider u8, type u8, LID u16, number, sequence,
// QKey and MTU u32, GID 16 bytes, and the soft part as JSON.
func (e Endpoint) MarshalBinary() ([]byte, error) {
	b := make([]byte, endpointSize)
	if e.Provider == Soft {
		b[0] = 1
	}
	b[1] = byte(e.Type)
	binary.LittleEndian.PutUint16(b[2:], e.LID)
	binary.LittleEndian.PutUint32(b[4:], e.Number)
	binary.LittleEndian.PutUint32(b[8:], e.Sequence)
	binary.LittleEndian.PutUint32(b[12:], e.QKey)
	binary.LittleEndian.PutUint32(b[16:], uint32(e.MTU))
	copy(b[20:], e.GID)
	if e.Soft == nil {
		return b, nil
	}
	soft, err := json.Marshal(e.Soft)
	return append(b, soft...), err
}

// UnmarshalBinary decodes the result of MarshalBinary.
func (e *Endpoint) UnmarshalBinary(b []byte) error {
	if len(b) < endpointSize {
		return errors.New("endpoint is too short")
	}
	*e = Endpoint{
		Provider: Verbs, Type: QueuePairType(b[1]),
		LID:      binary.LittleEndian.Uint16(b[2:]),
		Number:   binary.LittleEndian.Uint32(b[4:]),
		Sequence: binary.LittleEndian.Uint32(b[8:]),
		QKey:     binary.LittleEndian.Uint32(b[12:]),
		MTU:      int(binary.LittleEndian.Uint32(b[16:])),
	}
	if b[0] == 0 {
		e.GID = append([]byte(nil), b[20:endpointSize]...)
		return nil
	}
	e.Provider, e.Soft = Soft, &SoftEndpoint{}
	return json.Unmarshal(b[endpointSize:], e.Soft)
}

// SoftEndpoint is the part of an [Endpoint] that only the soft device has.
type SoftEndpoint struct {
	Boot      string  `json:"boot"` // boot ID, which identifies the host
	Device    uint64  `json:"device"`
	Directory shm.Ref `json:"directory"`
	Wire      shm.Ref `json:"wire"`
	Nonce     uint64  `json:"nonce"` // of the wire
}
