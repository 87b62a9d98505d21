package listen

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/gatewright/gatewright/shared/core/config"
)

// The limits of a PROXY header. A proxy has the header ready when it connects, so the timeout of the header is
// shorter than the timeout of a client's head. A header with all defined fields except client certificates has a few
// hundred bytes.
const (
	proxyHeaderTimeout = 5 * time.Second
	maxProxyHeader     = 4 << 10 // of version 2, without its prefix
	maxProxyHeaderV1   = 107     // of version 1
	proxyHeaderPrefix  = 16      // of version 2; its last two bytes are the length of the rest
)

var (
	proxySignature   = []byte("\r\n\r\n\x00\r\nQUIT\n")
	errNoProxyHeader = errors.New("listen: a trusted proxy's connection begins with no PROXY header")
	// errNoBytes is the error for a connection that ends before its first byte,
	// as TCP health checks of load balancers frequently do. It is not logged.
	errNoBytes = errors.New("listen: a trusted proxy's connection has ended without a byte")
)

// RemoteAddr implements net.Conn. It returns the client's address if a proxy has sent it.
func (c *conn) RemoteAddr() net.Addr {
	if c.clientAddr != nil {
		return c.clientAddr
	}
	return c.wire.RemoteAddr()
}

// readProxyHeader reads the PROXY header of a trusted proxy. The connection then continues like
// a connection without a proxy. Before the header was read, the connection counts only in total;
// after that, it also counts for its client's address. readProxyHeader closes a connection with
// an invalid header without a response, because the sender uses another protocol.
func (c *conn) readProxyHeader() {
	s := &c.server.parked
	if !s.addWaiting(c) {
		_ = c.closeOnce()
		return
	}
	_ = c.wire.SetReadDeadline(time.Now().Add(min(proxyHeaderTimeout, c.server.settings.HeaderTimeout)))
	client, err := parseProxyHeader(c.wire)
	_ = c.wire.SetReadDeadline(time.Time{})
	if !s.removeWaiting(c) {
		_ = c.closeOnce()
		return
	}
	if err != nil {
		if !errors.Is(err, errNoBytes) {
			c.server.refusals.logMissingProxyHeader(c.wire.RemoteAddr(), err)
		}
		_ = c.closeOnce()
		return
	}
	c.clientAddr = client
	from := c.server.countedAddress(c.RemoteAddr())
	if !c.server.counts.assign(from) {
		c.finished.Store(true)
		c.release()
		c.server.refuseConn(c.wire, c.clientAddr)
		return
	}
	c.limitAddr = from
	c.headDeadline = time.Now().Add(c.server.settings.HeaderTimeout)
	switch {
	case c.server.tls != nil:
		c.handshake(c.server.tls)
	case !s.resume(c):
		_ = c.closeOnce()
	}
}

// parseProxyHeader reads a PROXY header and no byte after it, and returns the client's address. For a health check of
// the proxy, and for a client without a TCP address, it returns nil, which stands for the proxy's own address.
//
// The listener of the library proxyproto is not used, because it reads the header
// in the first call of RemoteAddr, and keeps a buffer for each connection.
func parseProxyHeader(from io.Reader) (net.Addr, error) {
	head, err := readProxyHeaderBytes(from)
	if err != nil {
		return nil, err
	}
	if isUnspecifiedFamily(head) {
		return nil, nil
	}
	header, err := proxyproto.Read(bufio.NewReader(bytes.NewReader(head)))
	if err != nil {
		return nil, fmt.Errorf("read a PROXY header: %w", err)
	}
	client, _, ok := header.TCPAddrs()
	if !ok || !header.Command.IsProxy() || client.IP.IsUnspecified() {
		return nil, nil
	}
	return client, nil
}

// isUnspecifiedFamily reports whether a header of version 2 says that the client has no address of a known
// family. Version 1 calls this family UNKNOWN. The library refuses such a header with the command PROXY.
// The protocol requires using the connection's own addresses (section 2.2, AF_UNSPEC), as nginx does.
func isUnspecifiedFamily(head []byte) bool {
	return len(head) >= proxyHeaderPrefix && bytes.HasPrefix(head, proxySignature) &&
		head[12] == proxyCommandV2 && head[13] == 0
}

// proxyCommandV2 is the byte after the signature for version 2 and the command PROXY.
const proxyCommandV2 = 0x21

// DialLocal connects to a listener with these settings on this machine. If the addresses of this
// machine belong to trusted proxies, DialLocal sends the PROXY header of a health check (LOCAL).
func DialLocal(ctx context.Context, address string, settings config.Listener) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil || !settings.ProxyProtocol || !isTrustedProxy(settings.TrustedProxies, c.LocalAddr()) {
		return c, err
	}
	local := proxyproto.Header{Version: 2, Command: proxyproto.LOCAL, TransportProtocol: proxyproto.UNSPEC}
	if _, err := local.WriteTo(c); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("write a PROXY header: %w", err)
	}
	return c, nil
}

// readProxyHeaderBytes reads the bytes of a PROXY header of either version, and no byte after it. It does not check the
// content, except for the signature and the length.
func readProxyHeaderBytes(from io.Reader) ([]byte, error) {
	head := make([]byte, proxyHeaderPrefix, maxProxyHeaderV1)
	if _, err := io.ReadFull(from, head[:1]); err != nil {
		if !isTimeout(err) {
			return nil, errNoBytes
		}
		return nil, fmt.Errorf("read a PROXY header: %w", err)
	}
	switch head[0] {
	case proxySignature[0]:
		if _, err := io.ReadFull(from, head[1:]); err != nil {
			return nil, fmt.Errorf("read a PROXY header: %w", err)
		}
		length := int(binary.BigEndian.Uint16(head[proxyHeaderPrefix-2:]))
		if !bytes.HasPrefix(head, proxySignature) || length > maxProxyHeader {
			return nil, errNoProxyHeader
		}
		head = append(head, make([]byte, length)...)
		if _, err := io.ReadFull(from, head[proxyHeaderPrefix:]); err != nil {
			return nil, fmt.Errorf("read a PROXY header: %w", err)
		}
		return head, nil
	case 'P':
		// Read byte by byte: the header ends with its first line end, and the bytes after it belong to the client.
		head = head[:1]
		for head[len(head)-1] != '\n' {
			if len(head) == maxProxyHeaderV1 {
				return nil, errNoProxyHeader
			}
			head = head[:len(head)+1]
			if _, err := io.ReadFull(from, head[len(head)-1:]); err != nil {
				return nil, fmt.Errorf("read a PROXY header: %w", err)
			}
		}
		return head, nil
	}
	return nil, errNoProxyHeader
}
