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
	// namespace is the purpose that the signatures name (ssh-keygen -n). So a signature of a commit or of a mail is not
	// valid as the signature of a release.
	namespace = "gatewright-release"
	// signer is the name (principal) of all release keys in the file of allowed signers.
	signer = "gatewright"
	// allowedSigners is the path of the file with the public keys that verify releases, relative to the root of the
	// checkout.
	allowedSigners = "packaging/release/allowed_signers"
	// checksumsFile is the name of the file with the checksums of all other files of a release, and signatureFile the name
	// of its signature.
	checksumsFile, signatureFile = "SHA256SUMS", "SHA256SUMS.sig"
)

// trySignature signs a trial text. It finds errors in seconds that would otherwise occur after minutes of building: a
// file that is not a key, a key that others can read, a key that is not in allowedSigners, a wrong passphrase, or a
// missing ssh-keygen.
func (o options) trySignature(ctx context.Context) (err error) {
	folder, err := os.MkdirTemp("", "gatewright-release-")
	if err != nil {
		return fmt.Errorf("try the key: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := write(filepath.Join(folder, checksumsFile), []byte("a trial of the key, for no release\n")); err != nil {
		return err
	}
	return o.sign(ctx, folder)
}

// sign signs the checksums in folder, and verifies the signature with the public keys of the checkout, as users do.
// ssh-keygen reads the key, and prompts for its passphrase if necessary. This process never reads the key.
func (o options) sign(ctx context.Context, folder string) error {
	file := filepath.Join(folder, checksumsFile)
	cmd := exec.CommandContext(ctx, "ssh-keygen", "-q", "-Y", "sign", "-f", o.key, "-n", namespace, file) //nolint:gosec // G204: the caller's key
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("sign %s with the key KEY=%s: %w", checksumsFile, o.key, err)
	}
	signed, err := os.Open(file) //nolint:gosec // G304: the file that was just signed
	if err != nil {
		return fmt.Errorf("verify the signature: %w", err)
	}
	//nolint:gosec // G204: files of ours
	cmd = exec.CommandContext(ctx, "ssh-keygen", "-q", "-Y", "verify", "-f",
		filepath.Join(o.tree, filepath.FromSlash(allowedSigners)), //nolint:gosec // G204: a file of the checkout
		"-I", signer, "-n", namespace, "-s", filepath.Join(folder, signatureFile))
	cmd.Stdin = signed
	out, err := cmd.CombinedOutput()
	if err := errors.Join(err, signed.Close()); err != nil {
		return fmt.Errorf("the signature does not verify with the public keys of the checkout: add the public key to %s "+
			"and commit it before the release: %w: %s", allowedSigners, err, bytes.TrimSpace(out))
	}
	return nil
}
