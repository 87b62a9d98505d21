package tunnels

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
)

// token is the credential of an agent, as base64 of JSON (contract 2.8). Its text is stored sealed,
// because the tunnel's owner can read it at any time. A keyed hash of the text finds the tunnel.
type token struct {
	// Account is a hash of the account's id. Tunnel is the tunnel's id. Both
	// are only for people who read the token: authentication does not use them.
	Account string `json:"a"`
	Tunnel  string `json:"t"`
	Secret  string `json:"s"`
}

// tokenPurpose is the purpose of the hashes of tokens.
const tokenPurpose = "tunnel-token"

// secretDigits is the number of base62 digits of a token's secret: 256 random bits.
const secretDigits = 43

// tokenPrefix is the key prefix of the tokens' records (tokenRecord). Their
// keys are the tokens' keyed hashes, so one read finds the tunnel of a token.
const tokenPrefix store.KeyPrefix = "tunnel-token"

// tokenRecord identifies the tunnel of a token.
type tokenRecord struct {
	store.UnknownAttributes

	AccountID string `dynamodbav:"accountId"`
	TunnelID  string `dynamodbav:"tunnelId"`
}

func tokenKey(hash string) store.Key { return tokenPrefix.Key(hash) }

// IsCredential reports whether key is the table key of a token's record
// (tokenRecord). Without this record, no agent can connect with the token.
func IsCredential(key store.Key) bool { return tokenPrefix.Parts(key.PK) != nil }

// DecodeTunnel returns the ids of the account and the tunnel in a
// token's record. IsCredential must be true for the record's key.
func DecodeTunnel(item store.Item) (accountID, tunnelID string, err error) {
	var r tokenRecord
	if err := store.Decode(item, &r); err != nil {
		return "", "", fmt.Errorf("read where a tunnel's token leads: %w", err)
	}
	return r.AccountID, r.TunnelID, nil
}

// DecodeTunnelChange returns a tunnel's id and the time of its creation or of the last rotation of its token, from the
// tunnel's record. IsTunnel must be true for the record's key.
func DecodeTunnelChange(item store.Item) (tunnelID string, updatedOn time.Time, err error) {
	var r record
	if err := store.Decode(item, &r); err != nil {
		return "", time.Time{}, fmt.Errorf("read when a tunnel was changed: %w", err)
	}
	return r.ID, r.UpdatedOn, nil
}

// newToken returns a new token of a tunnel, and sets the token's hash and the sealed token in r. The caller writes r.
func (s *Service) newToken(ctx context.Context, r *record) (string, error) {
	account, err := s.accounts.Hash(ctx, r.AccountID)
	if err != nil {
		return "", fmt.Errorf("hash an account's id: %w", err)
	}
	//nolint:gosec // G117: the token is new, and is sealed below
	raw, err := json.Marshal(token{account, r.ID, s.parts.IDs.Digits(secretDigits)})
	if err != nil {
		return "", fmt.Errorf("encode a tunnel's token: %w", err)
	}
	text := base64.StdEncoding.EncodeToString(raw)
	if r.Hash, err = s.tokens.Hash(ctx, text); err != nil {
		return "", fmt.Errorf("hash a tunnel's token: %w", err)
	}
	if r.Sealed, err = s.sealer.Seal(ctx, []byte(text), r.sealContext()); err != nil {
		return "", fmt.Errorf("seal a tunnel's token: %w", err)
	}
	return text, nil
}

// openToken returns a tunnel's token.
func (s *Service) openToken(ctx context.Context, r record) (string, error) {
	text, err := s.sealer.Open(ctx, r.Sealed, r.sealContext())
	if err != nil {
		return "", fmt.Errorf("open the token of the tunnel %s: %w", r.ID, err)
	}
	return string(text), nil
}

// tokenWrite returns the write of the record that maps the hash of a token to its tunnel.
func (r record) tokenWrite() store.Write {
	return store.Create(tokenKey(r.Hash), tokenRecord{AccountID: r.AccountID, TunnelID: r.ID})
}

// sealContext returns the context that binds the sealed token to the tunnel.
func (r record) sealContext() string { return "tunnel-token/" + r.AccountID + "/" + r.ID }
