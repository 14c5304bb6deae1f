package ucxam

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// address is the content of Worker.Address.
type address struct {
	nonce  uint64 // in the headers of the worker's messages
	window uint32 // calls in flight
	layout uint32 // see settings.layout
	probe  []byte // of the port for probes of TCP; empty without one
	ucp    []byte // UCX's address
}

// addressMagic identifies an address and its version.
const addressMagic = "ucxam3\x00\x00"

const (
	nonceAt  = len(addressMagic)
	windowAt = nonceAt + 8
	layoutAt = windowAt + 4
	sumAt    = layoutAt + 4
	bodyAt   = sumAt + 4
	maxUCX   = 64 << 10 // bytes of UCX's address, and of that for probes with its length
)

func (a address) encode() []byte {
	b := append([]byte(addressMagic), make([]byte, bodyAt-nonceAt)...)
	binary.LittleEndian.PutUint64(b[nonceAt:], a.nonce)
	binary.LittleEndian.PutUint32(b[windowAt:], a.window)
	binary.LittleEndian.PutUint32(b[layoutAt:], a.layout)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(a.probe)))
	b = append(append(b, a.probe...), a.ucp...)
	binary.LittleEndian.PutUint32(b[sumAt:], checksum(b))
	return b
}

// decodeAddress is the inverse of encode. It checks the bytes because UCX trusts an address.
func decodeAddress(b []byte) (address, error) {
	if len(b) <= bodyAt || len(b) > bodyAt+maxUCX || string(b[:nonceAt]) != addressMagic {
		return address{}, errors.New("not the address of a worker of this transport")
	}
	if sum := binary.LittleEndian.Uint32(b[sumAt:]); sum != checksum(b) {
		return address{}, errors.New("the address is damaged: wrong checksum")
	}
	a := address{
		nonce:  binary.LittleEndian.Uint64(b[nonceAt:]),
		window: binary.LittleEndian.Uint32(b[windowAt:]),
		layout: binary.LittleEndian.Uint32(b[layoutAt:]),
		ucp:    b[bodyAt:],
	}
	if len(a.ucp) < 2 || len(a.ucp)-2 <= int(binary.LittleEndian.Uint16(a.ucp)) {
		return address{}, errors.New("the address is cut off")
	}
	end := 2 + int(binary.LittleEndian.Uint16(a.ucp))
	a.probe, a.ucp = a.ucp[2:end], a.ucp[end:]
	if a.nonce == noNonce || a.window == 0 {
		return address{},
			fmt.Errorf("the address is of another version of this transport (nonce %#x, window %d)",
				a.nonce, a.window)
	}
	return a, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum covers all bytes except itself.
func checksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:sumAt], castagnoli), castagnoli, b[bodyAt:])
}
