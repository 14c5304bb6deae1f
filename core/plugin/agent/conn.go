package agent

import (
	"net"
	"sync"
)

// watchedConn is a connection that remembers its first error and tells when it is closed.
type watchedConn struct {
	net.Conn
	closed chan struct{}
	once   sync.Once

	mu    sync.Mutex
	noted bool
	first error
}

func watch(conn net.Conn) *watchedConn {
	return &watchedConn{Conn: conn, closed: make(chan struct{})}
}

func (c *watchedConn) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.noted {
		c.noted, c.first = true, err
	}
}

// cause returns why the connection ended, or nil if it was closed at this end.
func (c *watchedConn) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.first
}

func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.note(err)
	}
	return n, err
}

func (c *watchedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		c.note(err)
	}
	return n, err
}

func (c *watchedConn) Close() error {
	c.note(nil) // errors that closing causes come later and do not count
	err := c.Conn.Close()
	c.once.Do(func() { close(c.closed) })
	return err
}

// oneConn is a listener that accepts one connection and then waits until that ends.
type oneConn struct {
	conn     net.Conn
	closed   <-chan struct{}
	accepted bool
}

func (l *oneConn) Accept() (net.Conn, error) {
	if !l.accepted {
		l.accepted = true
		return l.conn, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

// Close implements [net.Listener]; the server closes its connections by itself.
func (l *oneConn) Close() error { return nil }

func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }
