package policy

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
)

// signedMessage is what the headers of a message say. The signatures are of prefix and the body.
type signedMessage struct {
	prefix     string
	signatures [][]byte
	id         string
	time       time.Time
}

// The limits of the ids and times of messages.
const (
	maxMessageIDBytes = 256
	maxTimeDigits     = 12 // until the year 33658
)

// standardKey returns the key of a secret such as whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw.
func standardKey(secret string) (key []byte, ok bool) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	return key, err == nil
}

// single returns the value of a header field that exists exactly once.
func single(x *pipeline.Exchange, name string) (value string, ok bool) {
	values := x.Field(name)
	if len(values) != 1 {
		return "", false
	}
	return values[0], values[0] != ""
}

// parseTime parses a time in seconds since 1970. It accepts only digits, so that a time has one form.
func parseTime(text string) (t time.Time, ok bool) {
	if text == "" || len(text) > maxTimeDigits || strings.Trim(text, "0123456789") != "" {
		return t, false
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(seconds, 0), err == nil
}

// readStandard reads the headers of Standard Webhooks. The id has no dot, because dots separate what is signed: with one,
// a part of the body could pass for the time.
func (w *webhook) readStandard(x *pipeline.Exchange) (m signedMessage, ok bool) {
	id, hasID := single(x, "Webhook-Id")
	timestamp, hasTime := single(x, "Webhook-Timestamp")
	signatures, hasSignatures := single(x, "Webhook-Signature")
	if !hasID || !hasTime || !hasSignatures || len(id) > maxMessageIDBytes || strings.Contains(id, ".") {
		return m, false
	}
	if m.time, ok = parseTime(timestamp); !ok {
		return m, false
	}
	m.prefix = id + "." + timestamp + "."
	for i, text := range strings.Fields(signatures) {
		if i == maxSignatures {
			return m, false
		}
		encoded, isV1 := strings.CutPrefix(text, "v1,") // other versions are those of asymmetric keys
		signature, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if isV1 && err == nil && len(signature) == sha256.Size {
			m.signatures = append(m.signatures, signature)
		}
	}
	return m, len(m.signatures) > 0
}

// readHex reads a header such as sha256= and 64 hexadecimal digits.
func (w *webhook) readHex(x *pipeline.Exchange) (m signedMessage, ok bool) {
	text, has := single(x, w.header)
	text, hasPrefix := strings.CutPrefix(text, w.prefix)
	signature, err := hex.DecodeString(text)
	if !has || !hasPrefix || err != nil || len(signature) != sha256.Size {
		return m, false
	}
	m.signatures = [][]byte{signature}
	if w.idHeader != "" {
		if m.id, has = single(x, w.idHeader); !has || len(m.id) > maxMessageIDBytes {
			return m, false
		}
	}
	return m, true
}

// readTimestamped reads a header such as t=1700000000,v1=SIGNATURE,v1=SIGNATURE.
func (w *webhook) readTimestamped(x *pipeline.Exchange) (m signedMessage, ok bool) {
	text, has := single(x, w.header)
	if !has {
		return m, false
	}
	parts := strings.SplitN(text, ",", maxSignatures+2)
	if len(parts) > maxSignatures+1 {
		return m, false
	}
	for _, part := range parts {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "t":
			if m.prefix != "" { // two times
				return m, false
			}
			if m.time, ok = parseTime(value); !ok {
				return m, false
			}
			m.prefix = value + "."
		case "v1":
			if signature, err := hex.DecodeString(value); err == nil && len(signature) == sha256.Size {
				m.signatures = append(m.signatures, signature)
			}
		}
	}
	return m, m.prefix != "" && len(m.signatures) > 0
}
