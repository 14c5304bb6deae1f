package grpc

import (
	"bytes"
	"encoding/json"
	"errors"
)

// tokenSize is the length of a worker's token. The token is a secret of the run: the host passes it
// to the peers, and a connection without it is refused.
const tokenSize = 32

// address has what a peer needs to reach a worker.
type address struct {
	Layout      string `json:"layout"`
	At          string `json:"at"` // of the listening socket
	Nonce       uint64 `json:"nonce"`
	InFlight    int    `json:"in_flight"`
	Token       []byte `json:"token"`
	Certificate []byte `json:"certificate,omitempty"` // DER, with TLS
	Probe       []byte `json:"probe"`                 // of the port for probes of the sockets
}

func (a *address) encode() []byte {
	b, _ := json.Marshal(a) // cannot fail
	return b
}

// maxAddress is longer than any address.
const maxAddress = 16 << 10

func decodeAddress(b []byte) (*address, error) {
	a := new(address)
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if len(b) > maxAddress || d.Decode(a) != nil || a.At == "" || a.InFlight < 1 ||
		len(a.Token) != tokenSize {
		return nil, errors.New("not the address of a worker of this transport")
	}
	return a, nil
}
