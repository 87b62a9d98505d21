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

// Header is the first line of an export. The others are Links, one a line, in the
// order of the chain.
type Header struct {
	// Account is the account's id, Name its name, "" in exports of releases that wrote
	// none.
	Account string `json:"account" doc:"The account's id."`
	Name    string `json:"name,omitempty" doc:"The account's name."`
	// ExportedOn is when it was written: what had expired by then is not in it.
	ExportedOn time.Time `json:"exportedOn" doc:"When the export began: what had expired by then is not in it."`
	// First and Last are the numbers of the first and the last record, Hash is the
	// hash of the last one; 0 and "" where there is none.
	First int64  `json:"first" doc:"The number of the first record, 0 for none."`
	Last  int64  `json:"last" doc:"The number of the last record, 0 for none."`
	Hash  string `json:"hash" doc:"The hash of the last record, \"\" for none."`
	// PublicKey is what verifies it. It is trusted only where it was known before.
	PublicKey string `json:"publicKey" doc:"The installation's public key, which is to be trusted only where it was known before."`
	// Signature is over all of the above.
	Signature string `json:"signature" doc:"The installation's signature over all of this."`
}

// claim is what the signature of a header is over, beside account and end.
func (h Header) claim() string {
	claim := fmt.Sprintf("%d %q %d", h.First, h.Hash, h.ExportedOn.UnixMilli())
	if h.Name != "" {
		claim += fmt.Sprintf(" %q", h.Name)
	}
	return claim
}

// Signed is the header with the installation's signature.
func (h Header) Signed(key ed25519.PrivateKey) Header {
	h.PublicKey = PublicOf(key).String()
	h.Signature = File.Sign(key, h.Account, h.Last, h.claim())
	return h
}

// is reports whether the export is that of an account, by its id or name.
func (h Header) is(account string) bool {
	return account == h.Account || account == h.Name && h.Name != ""
}

// WriteFile writes a file: its header, and what each gives for the number of a record from the header's first to its last. link gives
// the links in their order.
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

// maxLineBytes bounds a line of an export: no item of the table is as large.
const maxLineBytes = 1 << 20

// written reports whether a line is what WriteFile has written for a value, byte for
// byte: a field twice or with other capitals, or one more than there are, is read in
// another way by another reader.
func written(line []byte, v any) bool {
	want, err := json.Marshal(v)
	return err == nil && bytes.Equal(line, want)
}

// VerifyFile goes along the chain of an export. key is the installation's, account
// the id or the name of the account that it has to be of. The error says that it
// could not be read; what is wrong with it is the Report's Break.
func VerifyFile(in io.Reader, key PublicKey, account string, noted Commitment) (Report, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLineBytes)
	var h Header
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &h) != nil || h.Signature == "" {
		return Report{}, errors.New("this is no export of an audit log: its first line is none that `audit export` writes")
	}
	v := Verify(h.ExportedOn, noted)
	switch h.ExportedOn = h.ExportedOn.UTC().Truncate(time.Millisecond); { // which is what is signed of it
	case !key.Holds(File, h.Account, h.Last, h.claim(), h.Signature) || h.PublicKey != key.String() || !written(lines.Bytes(), h):
		v.Break = "the first line was altered, or is of another installation: its signature does not hold"
	case h.Name == "" && !h.is(account):
		return Report{}, fmt.Errorf("this export was written without its account's name: name the account by its id, if it is %s", h.Account)
	case !h.is(account):
		return Report{}, errors.New("this is the export of another account's audit log")
	}
	for number := 2; lines.Scan(); number++ {
		var l Link
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil || !written(lines.Bytes(), l) {
			v.Broken(v.Last+1, "was altered: line %d is none that `audit export` writes", number)
			break
		}
		if v.First == 0 && l.Seq > h.First {
			v.Broken(h.First, "was removed, as was all up to record %d", l.Seq-1)
		}
		v.Add(key.Step(h.Account, l))
	}
	if err := lines.Err(); err != nil {
		return Report{}, fmt.Errorf("read an export: %w", err)
	}
	return v.End(Commitment{h.Last, h.Hash}, h.ExportedOn.Add(time.Second)), nil
}
