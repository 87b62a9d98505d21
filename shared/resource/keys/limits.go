package keys

import (
	"encoding/json"
	"net/mail"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/format/metadata"
)

// The limits of stored values. Some are from contract 2.6 and 8, and the others are our own. A value that exceeds a
// limit causes a 400 response, which names the field unless the whole list is too long (maxBulk). Only AddManager
// returns Conflict instead (maxManagers). Without these limits, such values would exceed the limits of DynamoDB and
// cause internal errors. DynamoDB allows 400 KB for an item, 2,048 bytes for a partition key, and 100 items in a
// transaction. A tag is part of a partition key, where some characters need three bytes. Managers and invites are part
// of the consumer's record, and each has an index row in the transaction that deletes the consumer.
const (
	// maxBulk is the maximum number of keys in one bulk creation.
	maxBulk = 1000

	maxDescription  = 1024 // characters
	maxBucketTags   = 20
	maxConsumerTags = 5
	maxTagKey       = 64  // bytes
	maxTagValue     = 256 // bytes
	maxManagers     = 50  // managers and invites of a consumer together
	maxEmail        = 254 // bytes, RFC 5321
	maxSub          = 256 // bytes
)

var (
	bucketNamePattern   = regexp.MustCompile(`^[a-z0-9-]{5,128}$`)
	consumerNamePattern = regexp.MustCompile(`^[a-z0-9_-]{1,128}$`)
	bucketIDPattern     = regexp.MustCompile(`^bckt_[0-9A-Za-z]{32}$`)
	consumerIDPattern   = regexp.MustCompile(`^csmr_[0-9A-Za-z]{24}$`)
	keyIDPattern        = regexp.MustCompile(`^key_[0-9A-Za-z]{24}$`)
)

// problems collects the validation errors of an input. No message repeats a value, because the value may be a secret.
type problems struct{ fault.Fields }

func (p *problems) bucketName(name string) {
	if !bucketNamePattern.MatchString(name) {
		p.Add("name", "has to be 5 to 128 of the characters a-z, 0-9 and -")
	}
}

func (p *problems) consumerName(name string) {
	switch {
	case !consumerNamePattern.MatchString(name):
		p.Add("name", "has to be 1 to 128 of the characters a-z, 0-9, _ and -")
	case consumerIDPattern.MatchString(name):
		// A path can contain either a name or an id, so a name must not look like an id.
		p.Add("name", "looks like the id of a consumer; choose another name")
	}
}

func (p *problems) description(location, text string) {
	switch {
	case !isPlainText(text):
		p.Add(location, "has to be UTF-8 text without control characters")
	case utf8.RuneCountInString(text) > maxDescription:
		p.Add(location, "has more than %d characters", maxDescription)
	}
}

func (p *problems) tags(tags map[string]string, maxPairs int) {
	if len(tags) > maxPairs {
		p.Add("tags", "has more than %d pairs", maxPairs)
		return
	}
	for key, value := range tags {
		switch {
		case key == "" || len(key) > maxTagKey || !isPlainText(key):
			p.Add("tags", "a property has to be 1 to %d bytes of UTF-8 text without control characters", maxTagKey)
		case len(value) > maxTagValue || !isPlainText(value):
			p.Add("tags", "a value has to be at most %d bytes of UTF-8 text without control characters", maxTagValue)
		}
	}
}

func (p *problems) metadata(raw json.RawMessage) string { return metadata.Read(&p.Fields, raw) }

func (p *problems) email(location, address string) {
	parsed, err := mail.ParseAddress(address)
	if err != nil || parsed.Address != address || len(address) > maxEmail || !isPlainText(address) {
		p.Add(location, "has to be an email address such as name@example.com")
	}
}

func (p *problems) sub(location, sub string) {
	if sub == "" || len(sub) > maxSub || !isPlainText(sub) {
		p.Add(location, "has to be 1 to %d bytes of UTF-8 text without control characters", maxSub)
	}
}

// isPlainText reports whether text is readable UTF-8: line breaks and tabs are the only control characters.
func isPlainText(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t'
	}) < 0
}
