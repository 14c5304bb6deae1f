package hosts

import (
	"crypto"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// role is an end of a connection.
type role string

const (
	coordinatorRole role = "coordinator"
	agentRole       role = "agent"
)

// protocol names the join protocol in TLS. It is the same for all versions, which tell each other
// apart by the first message; a program that speaks another protocol fails the handshake.
const protocol = "transportbench-join/1"

// key derives the key of one role from the token.
func (t Token) key(of role) ed25519.PrivateKey {
	seed, err := hkdf.Key(sha256.New, t[:], nil, "transportbench "+string(of), ed25519.SeedSize)
	if err != nil {
		panic(err) // only for a length that no hash supports
	}
	return ed25519.NewKeyFromSeed(seed)
}

var errWrongKey = errors.New("it does not know the token of this run")

// config returns the TLS configuration of one end, which accepts only the key of the other.
func (t Token) config(own, other role) (*tls.Config, error) {
	certificate, err := selfSigned(t.key(own))
	if err != nil {
		return nil, err
	}
	want := t.key(other).Public().(ed25519.PublicKey)
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{certificate},
		ClientAuth:             tls.RequireAnyClientCert,
		NextProtos:             []string{protocol},
		SessionTicketsDisabled: true,
		// The key is the identity; VerifyConnection, which is always called, compares it.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			if state.NegotiatedProtocol != protocol {
				return fmt.Errorf("it does not speak %s", protocol)
			}
			if len(state.PeerCertificates) == 0 ||
				!want.Equal(state.PeerCertificates[0].PublicKey) {
				return errWrongKey
			}
			return nil
		},
	}, nil
}

// selfSigned returns a certificate for key. Its times do not matter: clocks of hosts may differ.
func selfSigned(key ed25519.PrivateKey) (tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), crypto.Signer(key))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
