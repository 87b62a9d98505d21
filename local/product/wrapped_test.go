package product

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/smithy-go"

	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// fakeKMS is a KMS that can wrap a new root key. All other calls fail with the error code.
type fakeKMS struct{ code string }

func (f fakeKMS) err() error { return &smithy.GenericAPIError{Code: f.code, Message: "no"} }

func (f fakeKMS) GenerateDataKeyWithoutPlaintext(
	context.Context, *kms.GenerateDataKeyWithoutPlaintextInput, ...func(*kms.Options),
) (*kms.GenerateDataKeyWithoutPlaintextOutput, error) {
	return &kms.GenerateDataKeyWithoutPlaintextOutput{CiphertextBlob: []byte("wrapped")}, nil
}

func (f fakeKMS) Decrypt(context.Context, *kms.DecryptInput, ...func(*kms.Options)) (*kms.DecryptOutput, error) {
	return nil, f.err()
}

func (f fakeKMS) Encrypt(context.Context, *kms.EncryptInput, ...func(*kms.Options)) (*kms.EncryptOutput, error) {
	return nil, f.err()
}

// TestKeyOfAnotherRegionIsRefused checks the errors for an ARN of another region in the flags,
// and for two KMS keys: one that cannot unwrap the table's root key, and one that does not exist.
func TestKeyOfAnotherRegionIsRefused(t *testing.T) {
	s := settings{getenv: func(name string) string {
		return map[string]string{"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}[name]
	}}
	for _, c := range []struct{ table, key, want string }{
		{"table", "arn:aws:kms:us-east-1:000000000000:key/k", "--kms-key is in us-east-1, and AWS_REGION says eu-west-1"},
		{"arn:aws:dynamodb:us-east-1:000000000000:table/t", "k", "--table is in us-east-1, and AWS_REGION says eu-west-1"},
		{"table", "arn:aws:kms:eu-west-1:000000000000:key/k", ""},
		{"table", "k", ""},
	} {
		_, err := awsNames{c.table, "bucket", c.key}.open(s)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "\n")) {
			t.Errorf("open(%s, %s) = %v, want one line with %q, or nil if it is empty", c.table, c.key, err, c.want)
		}
	}
	for code, want := range map[string]string{
		"IncorrectKeyException":      "it is wrapped by another KMS key than k in eu-west-1",
		"InvalidCiphertextException": "it is wrapped by another KMS key than k in eu-west-1",
		"NotFoundException":          "KMS has no key k in eu-west-1: a key is of one region",
		"AccessDeniedException":      "AccessDeniedException",
	} {
		table := storetest.New(t)
		_, _ = rootkey.New(fakeKMS{code}, "k", table, time.Now).Root(t.Context()) // creates the record of the root key
		key := &wrappedKey{client: fakeKMS{code}, keyID: "k", region: "eu-west-1", table: table}
		if _, err := key.Root(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Root(%s) = %v, want %q", code, err, want)
		}
		if _, err := key.Adopt(t.Context(), rootkey.ExportedKey{Number: 1, Key: make([]byte, seal.KeyBytes)}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("Adopt(%s) = %v, want %q", code, err, want)
		}
	}
}

// TestMissingResourceErrorNamesTheRegion checks the errors with which explain replaces errors of AWS.
func TestMissingResourceErrorNamesTheRegion(t *testing.T) {
	for code, want := range map[string]string{
		"ResourceNotFoundException":    "there is no table table in eu-west-1, which AWS_REGION names",
		"NoSuchBucket":                 "there is no bucket bucket: check --bucket",
		"PermanentRedirect":            "the bucket bucket is in another region than eu-west-1",
		"AuthorizationHeaderMalformed": "the bucket bucket is in another region than eu-west-1",
		"AccessDenied":                 "AccessDenied",
	} {
		err := awsNames{"table", "bucket", "k"}.explain(fmt.Errorf("ask: %w", fakeKMS{code}.err()), "eu-west-1")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("explain(%s) = %v, want one line with %q", code, err, want)
		}
	}
}
