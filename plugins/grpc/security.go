package grpc

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
)

// A connection begins with a preface: the token of the listening worker and the nonce of the
// dialling one, inside TLS if it is on. gRPC sees no byte of a connection before its preface is
// verified.

const (
	prefaceMagic = "tbgrpc01"
	prefaceSize  = len(prefaceMagic) + tokenSize + 8
)

func appendPreface(b, token []byte, nonce uint64) []byte {
	b = append(append(b, prefaceMagic...), token...)
	return binary.LittleEndian.AppendUint64(b, nonce)
}

var errStranger = errors.New("the connection has not the token of this worker")

// parsePreface returns the nonce of the dialling worker.
func parsePreface(b, token []byte) (nonce uint64, err error) {
	if len(b) != prefaceSize || string(b[:len(prefaceMagic)]) != prefaceMagic ||
		subtle.ConstantTimeCompare(b[len(prefaceMagic):len(prefaceMagic)+tokenSize], token) != 1 {
		return 0, errStranger
	}
	return binary.LittleEndian.Uint64(b[len(prefaceMagic)+tokenSize:]), nil
}

// identity is what a server knows of the other end of a connection.
type identity struct {
	credentials.CommonAuthInfo
	nonce       uint64
	certificate []byte // DER, with TLS
	raw         net.Conn
	peer        atomic.Pointer[peer] // once it is admitted
}

// AuthType implements [credentials.AuthInfo].
func (*identity) AuthType() string { return "transportbench" }

// certify makes a key and a certificate for it, which are in memory only.
func certify() (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key for TLS: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "transportbench"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(7 * 24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate for TLS: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// tlsConfig returns a configuration that accepts any certificate. The client compares it with the
// one in the peer's address during the handshake, and the server once Connect has that address. TLS
// proves that the peer has the key.
func tlsConfig(own *tls.Certificate) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{*own}, MinVersion: tls.VersionTLS13,
		NextProtos: []string{"h2"},
		ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true,
		InsecureSkipVerify: true, // the certificate itself is known
	}
}

// tlsConn is a TLS connection that Close ends at once, without close_notify.
type tlsConn struct {
	*tls.Conn
	raw net.Conn
}

func (c tlsConn) Close() error { return c.raw.Close() }

// dialler implements the credentials of a worker that dials a peer.
type dialler struct {
	own     *tls.Certificate // nil without TLS
	preface []byte
	peer    []byte // the peer's certificate, with TLS
}

func (d *dialler) ClientHandshake(ctx context.Context, _ string, raw net.Conn) (net.Conn,
	credentials.AuthInfo, error) {
	conn := raw
	if d.own != nil {
		c := tls.Client(raw, tlsConfig(d.own))
		if err := c.HandshakeContext(ctx); err != nil {
			return nil, nil, err
		}
		if theirs := c.ConnectionState().PeerCertificates; len(theirs) == 0 ||
			!bytes.Equal(theirs[0].Raw, d.peer) {
			return nil, nil, errors.New("the peer's certificate is not the one in its address")
		}
		conn = tlsConn{c, raw}
	}
	if _, err := conn.Write(d.preface); err != nil {
		return nil, nil, err
	}
	return conn, new(identity), nil
}

func (*dialler) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("not a server")
}

func (*dialler) Info() credentials.ProtocolInfo            { return credentials.ProtocolInfo{} }
func (d *dialler) Clone() credentials.TransportCredentials { return d }
func (*dialler) OverrideServerName(string) error           { return nil }

// acceptor implements the credentials of a worker that accepts connections.
type acceptor struct {
	own   *tls.Certificate // nil without TLS
	token []byte
	door  *door
}

func (a *acceptor) ServerHandshake(raw net.Conn) (conn net.Conn, info credentials.AuthInfo,
	err error) {
	defer func() { a.door.known(raw, err == nil) }()
	conn = raw
	id := &identity{raw: raw}
	if a.own != nil {
		c := tls.Server(raw, tlsConfig(a.own))
		if err := c.Handshake(); err != nil {
			return nil, nil, err
		}
		id.certificate = c.ConnectionState().PeerCertificates[0].Raw
		conn = tlsConn{c, raw}
	}
	b := make([]byte, prefaceSize)
	if _, err := io.ReadFull(conn, b); err != nil {
		return nil, nil, err
	}
	if id.nonce, err = parsePreface(b, a.token); err != nil {
		return nil, nil, err
	}
	return conn, id, nil
}

func (*acceptor) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo,
	error) {
	return nil, nil, errors.New("not a client")
}

func (*acceptor) Info() credentials.ProtocolInfo            { return credentials.ProtocolInfo{} }
func (a *acceptor) Clone() credentials.TransportCredentials { return a }
func (*acceptor) OverrideServerName(string) error           { return nil }
