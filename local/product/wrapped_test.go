package product

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/smithy-go"

	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store/rootkey"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// region is a KMS of one region, which wraps for its own key and answers everything else with an error.
type region struct{ code string }

func (r region) err() error { return &smithy.GenericAPIError{Code: r.code, Message: "no"} }

func (r region) GenerateDataKeyWithoutPlaintext(context.Context, *kms.GenerateDataKeyWithoutPlaintextInput, ...func(*kms.Options)) (*kms.GenerateDataKeyWithoutPlaintextOutput, error) {
	return &kms.GenerateDataKeyWithoutPlaintextOutput{CiphertextBlob: []byte("wrapped")}, nil
}

func (r region) Decrypt(context.Context, *kms.DecryptInput, ...func(*kms.Options)) (*kms.DecryptOutput, error) {
	return nil, r.err()
}

func (r region) Encrypt(context.Context, *kms.EncryptInput, ...func(*kms.Options)) (*kms.EncryptOutput, error) {
	return nil, r.err()
}

// TestKeyOfAnotherRegionIsOneLine: of a key that is named, of one that does not open the table's root key, and of one that
// KMS does not know.
func TestKeyOfAnotherRegionIsOneLine(t *testing.T) {
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
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s with %s is answered with %v", c.table, c.key, err)
		}
	}
	for code, want := range map[string]string{
		"IncorrectKeyException":      "it is wrapped by another KMS key than k in eu-west-1",
		"InvalidCiphertextException": "it is wrapped by another KMS key than k in eu-west-1",
		"NotFoundException":          "KMS has no key k in eu-west-1: a key is of one region",
		"AccessDeniedException":      "AccessDeniedException",
	} {
		table := storetest.New(t)
		_, _ = rootkey.New(region{code}, "k", table, time.Now).Root(t.Context()) // makes the record
		key := &wrappedKey{client: region{code}, keyID: "k", region: "eu-west-1", table: table}
		if _, err := key.Root(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is answered with %v", code, err)
		}
		if _, err := key.Adopt(t.Context(), rootkey.Moved{Number: 1, Key: make([]byte, seal.KeyBytes)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("an import is answered with %v", err)
		}
	}
}

// TestNameThatIsOfAnotherRegionIsOneLine, by what AWS answers then.
func TestNameThatIsOfAnotherRegionIsOneLine(t *testing.T) {
	for code, want := range map[string]string{
		"ResourceNotFoundException":    "there is no table table in eu-west-1, which AWS_REGION names",
		"NoSuchBucket":                 "there is no bucket bucket: check --bucket",
		"PermanentRedirect":            "the bucket bucket is in another region than eu-west-1",
		"AuthorizationHeaderMalformed": "the bucket bucket is in another region than eu-west-1",
		"AccessDenied":                 "AccessDenied",
	} {
		err := awsNames{"table", "bucket", "k"}.explained(fmt.Errorf("ask: %w", region{code}.err()), "eu-west-1")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s is answered with %v", code, err)
		}
	}
}
