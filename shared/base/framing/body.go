package framing

import "errors"

// Body follows a message's body to its end. The zero value is an empty body.
type Body struct {
	remaining int64 // remaining bytes of the body or of the chunk's data
	line      int16 // bytes of the line that begins a chunk, or of all trailers
	excess    int16 // bytes of these lines beyond the allowance for their chunks
	state     state
	digits    int8 // number of digits of the chunk's size
}

// state is the kind of byte that comes next.
type state uint8

const (
	done state = iota
	fixed
	chunkSize
	chunkPadding   // white space after the size, as some old clients send it
	chunkExtension // up to the line's end
	chunkSizeLF
	chunkData
	chunkDataCR
	chunkDataLF
	trailerBegin // the beginning of a line
	trailerName
	trailerValue
	trailerLF
	endLF
)

// ErrChunks means that the chunked encoding of a body is malformed, or that its lines exceed the limits below.
var ErrChunks = errors.New("framing: the chunked encoding is malformed")

const (
	// maxDigits is the maximum number of hexadecimal digits of a chunk's size, so that it fits into 64 bits.
	maxDigits = 15
	// maxLine is the maximum length of a line that begins a chunk, and of all trailers together. Each such line may have
	// lineAllowance bytes, and allowedPerByte more for each byte of its chunk. maxExcess is the maximum total length of
	// the lines beyond these allowances. All bounds are below those of net/http, so that net/http reads every accepted
	// body to its end.
	maxLine        = 4000
	maxExcess      = 16_000
	lineAllowance  = 14
	allowedPerByte = 2
)

// Done reports whether the body is complete.
func (b *Body) Done() bool { return b.state == done }

// Consume processes the next bytes of the connection. It returns how many bytes of p belong to the message: all of
// them, or the bytes up to the message's end. Before invalid framing, it stops and returns ErrChunks.
func (b *Body) Consume(p []byte) (int, error) {
	for i := 0; i < len(p); {
		switch b.state {
		case done:
			return i, nil
		case fixed, chunkData:
			n := min(int64(len(p)-i), b.remaining)
			i += int(n)
			if b.remaining -= n; b.remaining == 0 {
				if b.state == fixed {
					b.state = done
				} else {
					b.state = chunkDataCR
				}
			}
		case chunkSize, chunkPadding, chunkExtension, chunkSizeLF, chunkDataCR, chunkDataLF,
			trailerBegin, trailerName, trailerValue, trailerLF, endLF:
			if !b.step(p[i]) {
				return i, ErrChunks
			}
			i++
		}
	}
	return len(p), nil
}

// step processes one byte between the data of chunks. It returns false if the byte is invalid there, or if a limit is
// exceeded. Every line must end with CR LF.
func (b *Body) step(c byte) bool {
	switch b.state {
	case chunkSize:
		if n, ok := hex(c); ok {
			b.digits++
			b.remaining = b.remaining<<4 | n
			return b.digits <= maxDigits && b.countOverhead()
		}
		return b.digits > 0 && b.afterSize(c)
	case chunkPadding:
		return c != ';' && b.afterSize(c)
	case chunkExtension:
		if c == '\r' {
			b.state = chunkSizeLF
			return true
		}
		return isText(c) && b.countOverhead()
	case chunkSizeLF:
		excess := max(0, int64(b.excess)+int64(b.line)-lineAllowance-allowedPerByte*b.remaining)
		if c != '\n' || excess > maxExcess {
			return false
		}
		b.line, b.excess, b.digits = 0, int16(excess), 0
		if b.state = chunkData; b.remaining == 0 {
			b.state = trailerBegin
		}
		return true
	case chunkDataCR:
		b.state = chunkDataLF
		return c == '\r'
	case chunkDataLF:
		b.state = chunkSize
		return c == '\n'
	case trailerBegin:
		if c == '\r' {
			b.state = endLF
			return true
		}
		b.state = trailerName
		return isTokenByte(c) && b.countOverhead()
	case trailerName:
		if c == ':' {
			b.state = trailerValue
		}
		return (c == ':' || isTokenByte(c)) && b.countOverhead()
	case trailerValue:
		if c == '\r' {
			b.state = trailerLF
			return true
		}
		return isText(c) && b.countOverhead()
	case trailerLF:
		b.state = trailerBegin
		return c == '\n' && b.countOverhead()
	case endLF:
		b.state = done
		return c == '\n'
	case done, fixed, chunkData:
	}
	return false
}

// afterSize processes the byte after the digits of a chunk's size, or after white space there.
func (b *Body) afterSize(c byte) bool {
	switch c {
	case '\r':
		b.state = chunkSizeLF
		return true
	case ';':
		b.state = chunkExtension
	case ' ', '\t':
		b.state = chunkPadding
	default:
		return false
	}
	return b.countOverhead()
}

// countOverhead counts a byte of a line that begins a chunk, or of the trailers. It returns false if there are more
// than maxLine bytes.
func (b *Body) countOverhead() bool {
	b.line++
	return b.line <= maxLine
}

// isText reports whether c is a tab or not a control character.
func isText(c byte) bool { return c >= ' ' && c != 0x7f || c == '\t' }

func hex(c byte) (int64, bool) {
	switch {
	case isDigit(c):
		return int64(c - '0'), true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int64(c|0x20-'a') + 10, true
	}
	return 0, false
}
