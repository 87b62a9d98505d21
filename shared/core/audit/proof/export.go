package proof

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Header is the first line of an export. Each of the other lines has one Link. The Links are in the order of the chain.
type Header struct {
	// Account is the account's id. Name is the account's name. It
	// is "" in exports of earlier releases, which did not write it.
	Account string `json:"account" doc:"The account's id."`
	Name    string `json:"name,omitempty" doc:"The account's name."`
	// ExportedOn is when the export began: the export lacks the records that had expired by then.
	ExportedOn time.Time `json:"exportedOn" doc:"When the export began: what had expired by then is not in it."`
	// First and Last are the numbers of the first and the last record. Hash is
	// the hash of the last record. If there are no records, they are 0 and "".
	First int64  `json:"first" doc:"The number of the first record, 0 for none."`
	Last  int64  `json:"last" doc:"The number of the last record, 0 for none."`
	Hash  string `json:"hash" doc:"The hash of the last record, \"\" for none."`
	// PublicKey is the key that verifies the export. Trust it only if you know it from another source.
	PublicKey string `json:"publicKey" doc:"The installation's public key, which is to be trusted only where it was known before."`
	// Signature is the signature over all fields above.
	Signature string `json:"signature" doc:"The installation's signature over all of this."`
}

// claim returns the part of the signed text that has First, Hash, ExportedOn and Name. Sign adds the account and Last.
func (h Header) claim() string {
	claim := fmt.Sprintf("%d %q %d", h.First, h.Hash, h.ExportedOn.UnixMilli())
	if h.Name != "" {
		claim += fmt.Sprintf(" %q", h.Name)
	}
	return claim
}

// Signed returns the header with the installation's signature.
func (h Header) Signed(key ed25519.PrivateKey) Header {
	h.PublicKey = PublicKeyOf(key).String()
	h.Signature = File.Sign(key, h.Account, h.Last, h.claim())
	return h
}

// belongsTo reports whether the export belongs to an account, given by id or name.
func (h Header) belongsTo(account string) bool {
	return account == h.Account || account == h.Name && h.Name != ""
}

// WriteFile writes an export: the header, and a line for each record from h.First to h.Last.
// link returns the link with a number. WriteFile calls it in the order of the numbers.
func WriteFile(out io.Writer, h Header, link func(seq int64) (Link, error)) error {
	lines := json.NewEncoder(out)
	if err := lines.Encode(h); err != nil {
		return fmt.Errorf("write an export: %w", err)
	}
	if h.First == 0 {
		return nil
	}
	for seq := h.First; seq <= h.Last; seq++ {
		l, err := link(seq)
		if err != nil {
			return err
		}
		if err := lines.Encode(l); err != nil {
			return fmt.Errorf("write an export: %w", err)
		}
	}
	return nil
}

// maxLineBytes limits a line of an export: every item of the table is smaller.
const maxLineBytes = 1 << 20

// isCanonical reports whether a line is byte for byte the line that WriteFile writes for v. JSON parsers
// differ in how they read a line that has a field twice, a field with other capitals, or an unknown field.
func isCanonical(line []byte, v any) bool {
	want, err := json.Marshal(v)
	return err == nil && bytes.Equal(line, want)
}

// VerifyFile verifies the chain of an export. key is the installation's key. account is the id or name of the expected
// account. An error means that the input is not an export, could not be read, or is not of this account. The Report's
// Break says what is wrong with the chain.
func VerifyFile(in io.Reader, key PublicKey, account string, expected Commitment) (Report, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLineBytes)
	var h Header
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &h) != nil || h.Signature == "" {
		return Report{}, errors.New("this is no export of an audit log: its first line is none that `audit export` writes")
	}
	v := NewVerifier(h.ExportedOn, expected)
	switch h.ExportedOn = h.ExportedOn.UTC().Truncate(time.Millisecond); { // the signature covers this form
	case !key.Verify(File, h.Account, h.Last, h.claim(), h.Signature) || h.PublicKey != key.String() ||
		!isCanonical(lines.Bytes(), h):
		v.Break = "the first line was altered, or is of another installation: its signature does not hold"
	case h.Name == "" && !h.belongsTo(account):
		return Report{},
			fmt.Errorf("this export was written without its account's name: name the account by its id, if it is %s", h.Account)
	case !h.belongsTo(account):
		return Report{}, errors.New("this is the export of another account's audit log")
	}
	for number := 2; lines.Scan(); number++ {
		var l Link
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil || !isCanonical(lines.Bytes(), l) {
			v.RecordBreak(v.Last+1, "was altered: line %d is none that `audit export` writes", number)
			break
		}
		if v.First == 0 && l.Seq > h.First {
			v.RecordBreak(h.First, "was removed, as was all up to record %d", l.Seq-1)
		}
		v.Add(key.CheckLink(h.Account, l))
	}
	if err := lines.Err(); err != nil {
		return Report{}, fmt.Errorf("read an export: %w", err)
	}
	// The last record had not expired when the export began, so a file without it is broken.
	return v.Finish(Commitment{h.Last, h.Hash}, h.ExportedOn.Add(time.Second)), nil
}
