package certificates

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/pki"
	"github.com/gatewright/gatewright/shared/store"
)

// Objects is the bucket.
type Objects interface {
	Put(ctx context.Context, key string, body io.ReadSeeker) error
	Delete(ctx context.Context, key string) error
	List(ctx context.Context, prefix string) iter.Seq2[blob.Object, error]
}

var (
	_ Objects = (*blob.Bucket)(nil)
	_ Objects = (*blob.Memory)(nil)
)

// Publish is the kind of the durable operation that keeps an account's truststore
// equal to its CAs: the object that a custom domain of API Gateway takes its CAs from.
const Publish = "client-ca.publish"

const publishing = "publish"

type publishInput struct {
	AccountID string `json:"accountId"`
}

// Truststores writes accounts' truststores. It is safe for concurrent use.
type Truststores struct {
	Table   *store.Table
	Objects Objects
}

// Definitions returns the operation's definition.
func (t Truststores) Definitions() []operation.Definition {
	return []operation.Definition{{
		Kind: Publish, First: publishing,
		States: map[string]operation.State{
			publishing: {
				Does: "writes the account's CAs to its truststore, and removes what it was before",
				Task: t.publish, Next: operation.Succeed, Must: true,
			},
		},
	}}
}

// publish writes the truststore as the CAs are now. Objects never change, so that each
// set has its own, below the account, by the digest of what it holds. Operations of
// two changes may do this at the same time, and an older one may write last: so each
// looks again when it has written, and begins anew where the set is another by then.
// The last one to write is then always one that has seen the newest set.
func (t Truststores) publish(ctx context.Context, s operation.Step) (operation.Result, error) {
	var in publishInput
	if err := s.Input(&in); err != nil {
		return operation.Result{}, err
	}
	before, err := readSet(ctx, t.Table, in.AccountID)
	if err != nil {
		return operation.Result{}, err
	}
	all, err := records(ctx, t.Table, in.AccountID)
	if err != nil {
		return operation.Result{}, err
	}
	current := ""
	if len(all) > 0 {
		bundle := bundleOf(all)
		sum := sha256.Sum256(bundle)
		current = blob.TruststoreKey(in.AccountID + "/" + hex.EncodeToString(sum[:]))
		if err := t.Objects.Put(ctx, current, bytes.NewReader(bundle)); err != nil {
			return operation.Result{}, fmt.Errorf("write a truststore: %w", err)
		}
	}
	for o, err := range t.Objects.List(ctx, blob.TruststoreKey(in.AccountID+"/")) {
		if err != nil {
			return operation.Result{}, fmt.Errorf("list truststores: %w", err)
		}
		if o.Key == current {
			continue
		}
		if err := t.Objects.Delete(ctx, o.Key); err != nil {
			return operation.Result{}, fmt.Errorf("remove a truststore: %w", err)
		}
	}
	after, err := readSet(ctx, t.Table, in.AccountID)
	return operation.Result{Again: after.Version != before.Version}, err
}

// bundleOf is the truststore: the certificates in PEM, in an order of their own, so
// that a set has one digest.
func bundleOf(all []record) []byte {
	slices.SortFunc(all, func(a, b record) int { return cmp.Compare(a.Fingerprint, b.Fingerprint) })
	var b strings.Builder
	for _, r := range all {
		b.Write(pem.EncodeToMemory(&pem.Block{Type: pki.CertificateBlock, Bytes: r.Certificate}))
	}
	return []byte(b.String())
}

// readSet reads the version of an account's set, the zero value before the first CA.
func readSet(ctx context.Context, table *store.Table, accountID string) (set, error) {
	var s set
	if err := table.Get(ctx, setKey(accountID), &s); err != nil && !errors.Is(err, store.ErrNotFound) {
		return set{}, fmt.Errorf("read the version of an account's client CAs: %w", err)
	}
	return s, nil
}
