package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// The variables of what listens for clients (package listen). Functions in Lambda
// have none of them: API Gateway stands before those, with limits of its own.
const (
	VarHeaderBytes           = "GATEWRIGHT_HEADER_BYTES"
	VarHeaderFields          = "GATEWRIGHT_HEADER_FIELDS"
	VarHeaderTimeout         = "GATEWRIGHT_HEADER_TIMEOUT"
	VarBodyTimeout           = "GATEWRIGHT_BODY_TIMEOUT"
	VarSendTimeout           = "GATEWRIGHT_SEND_TIMEOUT"
	VarIdleTimeout           = "GATEWRIGHT_IDLE_TIMEOUT"
	VarConnections           = "GATEWRIGHT_CONNECTIONS"
	VarConnectionsPerAddress = "GATEWRIGHT_CONNECTIONS_PER_ADDRESS"
	VarBufferedBodyBytes     = "GATEWRIGHT_BUFFERED_BODY_BYTES"
	VarTrustedProxies        = "GATEWRIGHT_TRUSTED_PROXIES"
	VarProxyProtocol         = "GATEWRIGHT_PROXY_PROTOCOL"
	// VarStandardHTTP also applies to a Lambda function: its gateway then sends requests through http.Transport.
	VarStandardHTTP = "GATEWRIGHT_STANDARD_HTTP"
)

// Listener bounds what a listener takes of its clients. docs/local-run.md has the
// table for users.
type Listener struct {
	// HeaderBytes is the largest head of a request: request line, fields and the
	// empty line; one of exactly that size passes. HeaderFields is how many fields
	// it may have. More is a 431.
	HeaderBytes, HeaderFields int
	// HeaderTimeout is how long a head may take from its first byte on, and a new
	// connection to its first head. BodyTimeout is how long a body may bring no
	// byte while somebody waits for one: a 408. SendTimeout is how long a client
	// may take no byte of an answer, IdleTimeout how long a connection may have no
	// request under way.
	HeaderTimeout, BodyTimeout, SendTimeout, IdleTimeout time.Duration
	// Connections is the most connections at once, to all listeners of the process and from all
	// clients together. 0 means as many as there are file descriptors for (package listen, Budget).
	// ConnectionsPerAddress is the most connections of one address (of IPv6: one /64), 0 for no
	// limit; loopback and trusted proxies have none. One connection more is a 503.
	Connections, ConnectionsPerAddress int
	// BufferedBodyBytes is the most memory for all request bodies that the process holds whole (package bodies). A
	// body beyond it is a 503.
	BufferedBodyBytes int
	// TrustedProxies are the addresses of proxies of the installation's own, whose
	// connections are many clients': what they say of a client is believed, and what
	// anybody else says is not.
	TrustedProxies []netip.Prefix
	// ProxyProtocol has each connection from a trusted proxy begin with a header of the
	// PROXY protocol, which has the client's address, and no other connection.
	ProxyProtocol bool
	// StandardHTTP makes net/http read the heads and bodies of requests itself. It is for
	// incidents: operators set it when our own parser has a fault.
	StandardHTTP bool
}

// LogStandardHTTP logs that StandardHTTP is set. A process calls it once, as it starts.
func LogStandardHTTP(standard bool, log *slog.Logger) {
	if standard {
		log.Warn("the standard library alone reads and sends requests: unset " + VarStandardHTTP + " when the incident is over")
	}
}

// DefaultListener is what holds where nothing is set.
//
// The times are nginx's or a third of them: a client whose bytes come through a bad
// network makes a pause of seconds, not of 20. 1,000 connections of an address are
// what some hundred browsers behind one address open. With 32 MiB for bodies the process stays below the 270 MB of
// docs/one-server.md while clients send as many bodies as they can (local/attack).
func DefaultListener() Listener {
	return Listener{
		HeaderBytes: 64 << 10, HeaderFields: 200,
		HeaderTimeout: 20 * time.Second, BodyTimeout: 20 * time.Second,
		SendTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		ConnectionsPerAddress: 1000,
		BufferedBodyBytes:     32 << 20,
	}
}

// number and duration are a bound of a Listener and what it may be.
type (
	number struct {
		name        string
		to          *int
		least, most int
	}
	duration struct {
		name string
		to   *time.Duration
	}
)

// leastBodyBytes is the smallest budget of bodies: a quarter of it has room for a body of 1 MiB and its two copies, while the buffer
// grows.
const leastBodyBytes = 16 << 20

// Every time of a Listener is within these.
const leastTime, mostTime = 100 * time.Millisecond, 24 * time.Hour

func (l *Listener) numbers() []number {
	return []number{
		{VarHeaderBytes, &l.HeaderBytes, 1 << 10, 1 << 20},
		{VarHeaderFields, &l.HeaderFields, 10, 10_000},
		{VarConnections, &l.Connections, 0, 10_000_000},
		{VarConnectionsPerAddress, &l.ConnectionsPerAddress, 0, 10_000_000},
		{VarBufferedBodyBytes, &l.BufferedBodyBytes, leastBodyBytes, 1 << 40},
	}
}

func (l *Listener) times() []duration {
	return []duration{
		{VarHeaderTimeout, &l.HeaderTimeout},
		{VarBodyTimeout, &l.BodyTimeout},
		{VarSendTimeout, &l.SendTimeout},
		{VarIdleTimeout, &l.IdleTimeout},
	}
}

// ListenerFromEnvironment reads a Listener by getenv. Its error names every variable
// at fault and never a value.
func ListenerFromEnvironment(getenv func(string) string) (Listener, error) {
	l := DefaultListener()
	var wrong []error
	for _, v := range l.numbers() {
		text := getenv(v.name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < v.least || n > v.most {
			wrong = append(wrong, fmt.Errorf("%s is no number from %d to %d", v.name, v.least, v.most))
			continue
		}
		*v.to = n
	}
	for _, v := range l.times() {
		text := getenv(v.name)
		if text == "" {
			continue
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < leastTime || d > mostTime {
			wrong = append(wrong, fmt.Errorf("%s is no time from %s to %s, such as 20s", v.name, short(leastTime), short(mostTime)))
			continue
		}
		*v.to = d
	}
	l.TrustedProxies = prefixes(getenv(VarTrustedProxies))
	if l.TrustedProxies == nil && strings.TrimSpace(getenv(VarTrustedProxies)) != "" {
		wrong = append(wrong, fmt.Errorf("%s has one that is no address or prefix such as 10.0.0.0/8, or is everybody's; write those of your proxies with spaces between", VarTrustedProxies))
	}
	switch getenv(VarProxyProtocol) {
	case "", "false":
	case "true":
		l.ProxyProtocol = true
		if getenv(VarTrustedProxies) == "" {
			wrong = append(wrong, fmt.Errorf("%s is true, and no proxy may send its header: name them in %s", VarProxyProtocol, VarTrustedProxies))
		}
	default:
		wrong = append(wrong, fmt.Errorf("%s is neither true nor false", VarProxyProtocol))
	}
	switch getenv(VarStandardHTTP) {
	case "", "false":
	case "true":
		l.StandardHTTP = true
	default:
		wrong = append(wrong, fmt.Errorf("%s is neither true nor false", VarStandardHTTP))
	}
	return l, errors.Join(wrong...)
}

// CheckAddress reports whether the setting name has an address to listen on: host:port, its port as a number.
// A port's name would lead there too, and nobody who keeps others from a port would know. The error has no value.
func CheckAddress(name, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil || strings.ContainsFunc(host, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return fmt.Errorf("%s is no address to listen on: write host:port, such as 127.0.0.1:9000", name)
	}
	return nil
}

// prefixes reads addresses and prefixes with spaces between, nil where one of them is none.
// One of all addresses is none either: whoever connects could say who they are.
func prefixes(text string) []netip.Prefix {
	var out []netip.Prefix
	for one := range strings.FieldsSeq(text) {
		p, err := netip.ParsePrefix(one)
		if err != nil {
			a, wrong := netip.ParseAddr(one)
			if wrong != nil || a.Zone() != "" {
				return nil
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		if p.Bits() == 0 || p.Addr().Is4In6() {
			return nil
		}
		out = append(out, p.Masked())
	}
	return out
}
