package seal_test

import "encoding/hex"

// storedValue was sealed by the first release: "gwk_example" under testKey(7)
// for "consumer-key/key_1". Every release must be able to open it.
var storedValue = fromHex("0185ef351847dd7b2a83f9819e314f83fea4be0d" +
	"90d34ab4c29a545ba5a7c63adde8c33a6cd3ccba")

func fromHex(text string) []byte {
	b, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return b
}
