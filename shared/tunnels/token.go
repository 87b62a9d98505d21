package tunnels

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/store"
)

// token is what an agent shows, as base64 of JSON (contract 2.8). It is shown to the
// tunnel's owner again, so it is kept sealed, and found by its keyed hash.
type token struct {
	// Account is a hash of the account's id, Tunnel the tunnel's id: they say what the token
	// is for and prove nothing.
	Account string `json:"a"`
	Tunnel  string `json:"t"`
	Secret  string `json:"s"`
}

// tokenPurpose is what tokens are hashed for.
const tokenPurpose = "tunnel-token"

// secretDigits of base62 are 256 random bits.
const secretDigits = 43

// tokenRecord is what the hash of a token leads to.
type tokenRecord struct {
	store.Rest

	AccountID string `dynamodbav:"accountId"`
	TunnelID  string `dynamodbav:"tunnelId"`
}

// LeadsTo reads where a token leads, of a record that IsCredential has told.
func LeadsTo(item store.Item) (accountID, tunnelID string, err error) {
	var r tokenRecord
	if err := store.Decode(item, &r); err != nil {
		return "", "", fmt.Errorf("read where a tunnel's token leads: %w", err)
	}
	return r.AccountID, r.TunnelID, nil
}

// ChangedOn reads which tunnel a record is of that IsTunnel has told, and when that was changed last.
func ChangedOn(item store.Item) (tunnelID string, on time.Time, err error) {
	var r record
	if err := store.Decode(item, &r); err != nil {
		return "", time.Time{}, fmt.Errorf("read when a tunnel was changed: %w", err)
	}
	return r.ID, r.UpdatedOn, nil
}

// newToken gives a tunnel another token.
func (s *Service) newToken(ctx context.Context, r *record) (string, error) {
	account, err := s.accounts.Hash(ctx, r.AccountID)
	if err != nil {
		return "", fmt.Errorf("hash an account's id: %w", err)
	}
	raw, err := json.Marshal(token{account, r.ID, s.parts.IDs.Digits(secretDigits)}) //nolint:gosec // G117: it is the token that is made
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

// token opens a tunnel's token.
func (s *Service) token(ctx context.Context, r record) (string, error) {
	text, err := s.sealer.Open(ctx, r.Sealed, r.sealContext())
	if err != nil {
		return "", fmt.Errorf("open the token of the tunnel %s: %w", r.ID, err)
	}
	return string(text), nil
}

// found is the write by which a tunnel's token leads to it.
func (r record) found() store.Write {
	return store.Create(tokenKey(r.Hash), tokenRecord{AccountID: r.AccountID, TunnelID: r.ID})
}

// sealContext names the record that a token belongs to.
func (r record) sealContext() string { return "tunnel-token/" + r.AccountID + "/" + r.ID }
