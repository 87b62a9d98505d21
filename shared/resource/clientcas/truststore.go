package clientcas

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

	"github.com/gatewright/gatewright/shared/base/pki"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Objects is the bucket for truststores.
type Objects interface {
	Put(ctx context.Context, key string, body io.ReadSeeker) error
	Delete(ctx context.Context, key string) error
	List(ctx context.Context, prefix string) iter.Seq2[blob.Object, error]
}

var (
	_ Objects = (*blob.Bucket)(nil)
	_ Objects = (*blob.Memory)(nil)
)

// Publish is the kind of the durable operation that keeps an account's truststore equal to its
// CAs. The truststore is the object from which a custom domain of API Gateway reads its CAs.
const Publish = "client-ca.publish"

const publishState = "publish"

type publishInput struct {
	AccountID string `json:"accountId"`
}

// Truststores writes accounts' truststores. It is safe for concurrent use.
type Truststores struct {
	Table   *store.Table
	Objects Objects
}

// Definitions returns the definition of the operation.
func (t Truststores) Definitions() []operation.Definition {
	return []operation.Definition{{
		Kind: Publish, First: publishState,
		States: map[string]operation.State{
			publishState: {
				Description: "writes the account's CAs to its truststore, and removes what it was before",
				Task:        t.publish, Next: operation.Succeed, MustSucceed: true,
			},
		},
	}}
}

// publish writes the truststore with the current CAs. Objects never change: each set has its own object in the
// account's folder, named by the digest of its contents. The operations of two changes may run concurrently, and the
// older one may write last. So each operation reads the set's version again after the write, and repeats if the
// version has changed. So the last write always comes from an operation that has seen the newest set.
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
		bundle := encodeBundle(all)
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
	return operation.Result{Repeat: after.Version != before.Version}, err
}

// encodeBundle returns the content of the truststore: the certificates in PEM. It sorts them, so that the same set
// always has the same digest.
func encodeBundle(all []record) []byte {
	slices.SortFunc(all, func(a, b record) int { return cmp.Compare(a.Fingerprint, b.Fingerprint) })
	var b strings.Builder
	for _, r := range all {
		b.Write(pem.EncodeToMemory(&pem.Block{Type: pki.CertificateBlock, Bytes: r.Certificate}))
	}
	return []byte(b.String())
}

// readSet reads the number of an account's CAs and the version of the set. It returns the zero value if the account
// never had a CA.
func readSet(ctx context.Context, table *store.Table, accountID string) (set, error) {
	var s set
	if err := table.Get(ctx, setKey(accountID), &s); err != nil && !errors.Is(err, store.ErrNotFound) {
		return set{}, fmt.Errorf("read the version of an account's client CAs: %w", err)
	}
	return s, nil
}
