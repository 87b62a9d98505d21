package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	// namespace is the purpose of the signatures. A signature of a commit or of a mail does not verify as the signature of a release.
	namespace = "gatewright-release"
	// signer is the name (principal) of all release keys in the file of allowed signers.
	signer = "gatewright"
	// allowedSigners is the path of the file with the public keys that verify releases, relative to the root of the checkout.
	allowedSigners = "packaging/release/allowed_signers"
	// sums is the name of the file with the checksums of all other files of a release, and signature the name of its signature.
	sums, signature = "SHA256SUMS", "SHA256SUMS.sig"
)

// trySignature signs a text that nobody gets. It finds in seconds what would otherwise fail after minutes of building: a file that
// is no key, a key that others can read, one that users do not know, a wrong passphrase, or no ssh-keygen.
func (o options) trySignature(ctx context.Context) (err error) {
	folder, err := os.MkdirTemp("", "gatewright-release-")
	if err != nil {
		return fmt.Errorf("try the key: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := write(filepath.Join(folder, sums), []byte("a trial of the key, for no release\n")); err != nil {
		return err
	}
	return o.sign(ctx, folder)
}

// sign signs the checksums in folder and verifies the signature with the public keys of the checkout, as users do.
// ssh-keygen reads the key, and asks for its passphrase if it has one. This process knows only the path of the key.
func (o options) sign(ctx context.Context, folder string) error {
	file := filepath.Join(folder, sums)
	cmd := exec.CommandContext(ctx, "ssh-keygen", "-q", "-Y", "sign", "-f", o.key, "-n", namespace, file) //nolint:gosec // G204: the caller's key
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("sign %s with the key KEY=%s: %w", sums, o.key, err)
	}
	signed, err := os.Open(file) //nolint:gosec // G304: what was just written
	if err != nil {
		return fmt.Errorf("verify the signature: %w", err)
	}
	cmd = exec.CommandContext(ctx, "ssh-keygen", "-q", "-Y", "verify", "-f", filepath.Join(o.tree, filepath.FromSlash(allowedSigners)), //nolint:gosec // G204: files of ours
		"-I", signer, "-n", namespace, "-s", filepath.Join(folder, signature))
	cmd.Stdin = signed
	out, err := cmd.CombinedOutput()
	if err := errors.Join(err, signed.Close()); err != nil {
		return fmt.Errorf("the signature does not verify with the public keys of the checkout: add the public key to %s and commit it before the release: %w: %s", allowedSigners, err, bytes.TrimSpace(out))
	}
	return nil
}
