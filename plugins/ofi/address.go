package ofi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// address is the content of Worker.Address.
type address struct {
	nonce    uint64 // in the headers of the worker's messages
	window   uint32 // calls in flight
	small    uint32 // bytes of the largest payload of a plain message
	maximum  uint64 // bytes of the largest payload
	provider string
	presence string
	probe    []byte // of the port for probes; empty without one
	library  []byte // libfabric's address
}

// addressMagic identifies an address and its version.
const addressMagic = "ofi2\x00\x00\x00\x00"

// fixedSize is the length of the magic, the checksum and the numbers.
const fixedSize = len(addressMagic) + 4 + 8 + 4 + 4 + 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (a *address) encode() []byte {
	b := binary.LittleEndian.AppendUint64(nil, a.nonce)
	b = binary.LittleEndian.AppendUint32(b, a.window)
	b = binary.LittleEndian.AppendUint32(b, a.small)
	b = binary.LittleEndian.AppendUint64(b, a.maximum)
	for _, field := range [][]byte{[]byte(a.provider), []byte(a.presence), a.probe, a.library} {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(field)))
		b = append(b, field...)
	}
	sum := binary.LittleEndian.AppendUint32([]byte(addressMagic), crc32.Checksum(b, castagnoli))
	return append(sum, b...)
}

// decodeAddress is the inverse of encode. It checks the bytes because libfabric trusts an address.
func decodeAddress(b []byte) (*address, error) {
	if len(b) < fixedSize || string(b[:len(addressMagic)]) != addressMagic {
		return nil, errors.New("not the address of a worker of this transport")
	}
	sum, rest := binary.LittleEndian.Uint32(b[len(addressMagic):]), b[len(addressMagic)+4:]
	if sum != crc32.Checksum(rest, castagnoli) {
		return nil, errors.New("the address is damaged: wrong checksum")
	}
	a := &address{
		nonce:   binary.LittleEndian.Uint64(rest),
		window:  binary.LittleEndian.Uint32(rest[8:]),
		small:   binary.LittleEndian.Uint32(rest[12:]),
		maximum: binary.LittleEndian.Uint64(rest[16:]),
	}
	rest = rest[24:]
	var fields [4][]byte
	for i := range fields {
		if len(rest) < 2 || len(rest)-2 < int(binary.LittleEndian.Uint16(rest)) {
			return nil, errors.New("the address is cut off")
		}
		end := 2 + int(binary.LittleEndian.Uint16(rest))
		fields[i], rest = rest[2:end], rest[end:]
	}
	if len(rest) != 0 || a.nonce == 0 || a.window == 0 || len(fields[3]) == 0 {
		return nil,
			fmt.Errorf("the address is of another version of this transport (nonce %#x, window %d)",
				a.nonce, a.window)
	}
	a.provider, a.presence, a.probe, a.library = string(fields[0]), string(fields[1]), fields[2],
		fields[3]
	return a, nil
}
