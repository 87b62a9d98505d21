package framing

import "errors"

// Body follows a message's body to its end. The zero value is one that has none.
type Body struct {
	left   int64 // of the body, or of the chunk
	line   int16 // bytes of the line that begins a chunk, or of all trailers
	excess int16 // bytes of such lines beyond what their chunks allow
	state  state
	digits int8 // of the chunk's size
}

// state is what comes next.
type state uint8

const (
	done state = iota
	fixed
	chunkSize
	chunkPadding   // white space behind the size, as some old clients send it
	chunkExtension // up to the line's end
	chunkSizeLF
	chunkData
	chunkDataCR
	chunkDataLF
	trailerBegin // of a line
	trailerName
	trailerValue
	trailerLF
	endLF
)

// ErrChunks says that a body is not encoded as its header says.
var ErrChunks = errors.New("framing: the chunked encoding is malformed")

const (
	// maxDigits is what a chunk's size may have, below where 64 bits overflow.
	maxDigits = 15
	// maxLine is what the line that begins a chunk may have, and all trailers;
	// maxExcess is what such lines may have together, beyond allowance for each and
	// allowedPerByte of its chunk. All are within what net/http takes, so that it
	// reads to its end what is let through.
	maxLine        = 4000
	maxExcess      = 16_000
	allowance      = 14
	allowedPerByte = 2
)

// Done reports whether the message has ended.
func (b *Body) Done() bool { return b.state == done }

// Take reports how many bytes of p belong to the message: all of them, or those up
// to its end, or those before what is no chunked encoding.
func (b *Body) Take(p []byte) (int, error) {
	for i := 0; i < len(p); {
		switch b.state {
		case done:
			return i, nil
		case fixed, chunkData:
			n := min(int64(len(p)-i), b.left)
			i += int(n)
			if b.left -= n; b.left == 0 {
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

// step takes one byte of what frames the chunks. Every line ends with CR LF.
func (b *Body) step(c byte) bool {
	switch b.state {
	case chunkSize:
		if n, ok := hex(c); ok {
			b.digits++
			b.left = b.left<<4 | n
			return b.digits <= maxDigits && b.more()
		}
		return b.digits > 0 && b.afterSize(c)
	case chunkPadding:
		return c != ';' && b.afterSize(c)
	case chunkExtension:
		if c == '\r' {
			b.state = chunkSizeLF
			return true
		}
		return isText(c) && b.more()
	case chunkSizeLF:
		excess := max(0, int64(b.excess)+int64(b.line)-allowance-allowedPerByte*b.left)
		if c != '\n' || excess > maxExcess {
			return false
		}
		b.line, b.excess, b.digits = 0, int16(excess), 0
		if b.state = chunkData; b.left == 0 {
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
		return isTokenByte(c) && b.more()
	case trailerName:
		if c == ':' {
			b.state = trailerValue
		}
		return (c == ':' || isTokenByte(c)) && b.more()
	case trailerValue:
		if c == '\r' {
			b.state = trailerLF
			return true
		}
		return isText(c) && b.more()
	case trailerLF:
		b.state = trailerBegin
		return c == '\n' && b.more()
	case endLF:
		b.state = done
		return c == '\n'
	case done, fixed, chunkData:
	}
	return false
}

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
	return b.more()
}

// more counts a byte that is no data.
func (b *Body) more() bool {
	b.line++
	return b.line <= maxLine
}

// isText reports whether c is no control character but a tab.
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
