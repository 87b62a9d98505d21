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

	"github.com/gatewright/gatewright/shared/config"
)

// The bounds of a PROXY header. A proxy has it ready as it connects, so that it gets less
// time than a client's head; one with all that is defined, certificates of clients apart,
// has a few hundred bytes.
const (
	introductionTimeout = 5 * time.Second
	maxIntroduction     = 4 << 10
	maxTextIntroduction = 107 // of version 1
	introductionPrefix  = 16  // of version 2, the length of the rest at its end
)

var (
	signature        = []byte("\r\n\r\n\x00\r\nQUIT\n")
	errNoIntroducing = errors.New("listen: a trusted proxy's connection begins with no PROXY header")
	// errSilent is of a connection that ends before its first byte, as a balancer's checks by TCP
	// do again and again. There is nothing to tell.
	errSilent = errors.New("listen: a trusted proxy's connection has ended without a byte")
)

// RemoteAddr implements net.Conn: it is the client's address, where a proxy has said it.
func (c *conn) RemoteAddr() net.Addr {
	if c.client != nil {
		return c.client
	}
	return c.wire.RemoteAddr()
}

// introduce reads what a trusted proxy says of its client, and then has the connection go
// the way of those without a proxy. Until then it counts in all alone, and for its client's
// address from then on. A connection that does not begin as it has to is closed without an
// answer: whoever sent it speaks another protocol than we do.
func (c *conn) introduce() {
	s := &c.server.sleepers
	if !s.add(c) {
		_ = c.finish()
		return
	}
	_ = c.wire.SetReadDeadline(time.Now().Add(min(introductionTimeout, c.server.settings.HeaderTimeout)))
	client, err := introduction(c.wire)
	_ = c.wire.SetReadDeadline(time.Time{})
	if !s.remove(c) {
		_ = c.finish()
		return
	}
	if err != nil {
		if !errors.Is(err, errSilent) {
			c.server.refusals.unintroduced(c.wire.RemoteAddr(), err)
		}
		_ = c.finish()
		return
	}
	c.client = client
	from := c.server.counted(c.RemoteAddr())
	if !c.server.counts.move(from) {
		c.finished.Store(true)
		c.giveBack()
		c.server.turnAway(c.wire, c.client)
		return
	}
	c.from = from
	c.headBy = time.Now().Add(c.server.settings.HeaderTimeout)
	switch {
	case c.server.tls != nil:
		c.handshake(c.server.tls)
	case !s.wake(c):
		_ = c.finish()
	}
}

// introduction reads a PROXY header and no byte of what follows, and gives the client's
// address: nil for the proxy's own, as for its health checks and for clients that have
// none.
//
// The library's listener would read in RemoteAddr, in whatever goroutine asks first, and
// keep a buffer for each connection.
func introduction(from io.Reader) (net.Addr, error) {
	head, err := introductionBytes(from)
	if err != nil {
		return nil, err
	}
	if isOfNoFamily(head) {
		return nil, nil
	}
	said, err := proxyproto.Read(bufio.NewReader(bytes.NewReader(head)))
	if err != nil {
		return nil, fmt.Errorf("read a PROXY header: %w", err)
	}
	client, _, ok := said.TCPAddrs()
	if !ok || !said.Command.IsProxy() || client.IP.IsUnspecified() {
		return nil, nil
	}
	return client, nil
}

// isOfNoFamily reports whether a header of version 2 says of its client that it has no address that the
// protocol knows, which is what version 1 calls UNKNOWN. The library refuses it with the command PROXY; the
// protocol has the connection's own addresses be used (section 2.2, AF_UNSPEC), as nginx does.
func isOfNoFamily(head []byte) bool {
	return len(head) >= introductionPrefix && bytes.HasPrefix(head, signature) && head[12] == proxied && head[13] == 0
}

// proxied is version 2 and the command PROXY, in the byte behind the signature.
const proxied = 0x21

// DialOwn connects to a listener of these settings on this machine. Where this machine's addresses are those of
// trusted proxies, it begins as those have to: for itself (LOCAL), as a health check.
func DialOwn(ctx context.Context, address string, settings config.Listener) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil || !settings.ProxyProtocol || !trusts(settings.TrustedProxies, c.LocalAddr()) {
		return c, err
	}
	local := proxyproto.Header{Version: 2, Command: proxyproto.LOCAL, TransportProtocol: proxyproto.UNSPEC}
	if _, err := local.WriteTo(c); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("write a PROXY header: %w", err)
	}
	return c, nil
}

func introductionBytes(from io.Reader) ([]byte, error) {
	head := make([]byte, introductionPrefix, maxTextIntroduction)
	if _, err := io.ReadFull(from, head[:1]); err != nil {
		if !isTimeout(err) {
			return nil, errSilent
		}
		return nil, fmt.Errorf("read a PROXY header: %w", err)
	}
	switch head[0] {
	case signature[0]:
		if _, err := io.ReadFull(from, head[1:]); err != nil {
			return nil, fmt.Errorf("read a PROXY header: %w", err)
		}
		rest := int(binary.BigEndian.Uint16(head[introductionPrefix-2:]))
		if !bytes.HasPrefix(head, signature) || rest > maxIntroduction {
			return nil, errNoIntroducing
		}
		head = append(head, make([]byte, rest)...)
		if _, err := io.ReadFull(from, head[introductionPrefix:]); err != nil {
			return nil, fmt.Errorf("read a PROXY header: %w", err)
		}
		return head, nil
	case 'P':
		// Byte by byte: how long it is shows at its end, and what follows is the client's.
		head = head[:1]
		for head[len(head)-1] != '\n' {
			if len(head) == maxTextIntroduction {
				return nil, errNoIntroducing
			}
			head = head[:len(head)+1]
			if _, err := io.ReadFull(from, head[len(head)-1:]); err != nil {
				return nil, fmt.Errorf("read a PROXY header: %w", err)
			}
		}
		return head, nil
	}
	return nil, errNoIntroducing
}
