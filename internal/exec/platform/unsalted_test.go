package platform_test

import (
	"encoding/base64"
	"testing"

	"daybook/internal/exec/platform"
)

// Signatures of RSA-PSS without a salt are those of Node, for a modulus of 1024, 1025 and 1031
// bits: the encoded message of the second one is a byte shorter than the modulus.
func TestSignaturesWithoutSalt(t *testing.T) {
	for _, c := range []struct{ hash, key, signature string }{
		{"SHA-256", "MIICdwIBADANBgkqhkiG9w0BAQEFAASCAmEwggJdAgEAAoGBAK+MLvBLQ39Y4iSgPNFQBcfmOwoe7mDnL3uca3eQwXuhRpgsjZsFiHaqAmEiWokIV5bOWgq2cVUbJG4HmVvKmOj4ZWNGtFmshfL+XPDcxyPdbeKfa88H1JlSHt2g4ETqkI3YBtavo5dpqZNW7YlmEWNCLKq/QDac7pGDEDScG/GPAgMBAAECgYA27ssRbrvkcc/yXiIp7byhXS5EcIFv2WhGaiBG/glNwp3wqKB3TjfxyimMc8+Y6f9etZv/li/IzgGMXNxkmPVYDKAhmTGzfB04LD1Q/NGMKMucyDgcRhxBjXMOm21hcqBxm4/G0Et8vYHWGReiMh2j1Ehw7zlcC6KFutEhDCytQQJBAOZkd3j5FoKSZE1jGmayZHcY4amWwdS04SG8PPcO3WBwWu/YtgtiPLC/iCpiKKuh66k2Yl8i7ZFVsThM+VlEvxcCQQDDDyx/paIpSyJSPKGOkN2hDfsrmPo/c082EeMkM2jWcqIa1/cyiDHQ2Wva7zNEv5VVM4ikSuHS8UnH9KpkkqxJAkBgER5cHAkN0vrt5df5YINRwdc+vrT9+5owVexZ3CHk95SDlCp8Xq8NyB+ABMQOpQq92QZ1wvuqcT/fSQFj/q1rAkEAlL0fW3679uz6EOd28jV5KvR0ULxoJrYQ8tQU9mfVS6FCB2Ijd37vLah9XAcGeyf0AXI4gb8wECA5+KWSwPovMQJBAModKlwlkNSqDTIAICnbsix4JU7nmkVYf9FCl+2iRZIwOIpRYz54uCtveXMiMGMqBntS913mG3bpyV4L+r7QRUM=", "40112271fbf0fe63faa0268c682f8f512afc3c98cd5c4a3c6f84f54bf22c7663efb9a00654d6829f5466580ca7ba979c7368390008331dca1498a026649064a34dba5229d3653c76a78418c99ea5a7ddda4ba2179d7549be113c66ddb0f2c097ce88b33683ea7d08f37e924298ed993c5ab6e7004ba577d98e08ab245f3e43cb"},
		{"SHA-512", "MIICdwIBADANBgkqhkiG9w0BAQEFAASCAmEwggJdAgEAAoGBAWjC44l04D0llryW1XhyurvjVgX9mRen81yZ30M21libITRagRnZmJ0afFL3553Bpzzc9pf5lUnIAQ/HfGGutz+a6fnnZVW1yFZLGfiDa9ab0zhr0XcfljKWKcimAmWHX8WqeLxuBifceiaZfZndTf721AtCdFSK5YeVMdFYjqyfAgMBAAECgYEBOoLFeb2SDNzrWAirnHFxSII+KcTYJd5+9NkU4nU5U1ATF6BbctzYBwbjIjYMD+WXViFRPlcRhpw+CLKiRkraZwzWmwpVWIcROG6obkZqviaQ44IRBHQewKijhDN/QGvDEYHRG254ISK//flMeS0lw3Tt9njypO3RdvTWyoWo4KkCQQGORadhlo2CEOihiFL5iidL1Uqr+j+YRfBAm6w2IQkirRs4GIiItVYHj8uhdKAo7Q2HItO1Cz66YAj0SnmChMJLAkEA5+ORGWgOOkuRmPNw3FVz0msBJpC/eEe2CjVS69fvHrn2qZ55JB9Z12I5/FtamFtwLkzeCNixhLLe8CGNvGKqfQJAUsmp1IBOJAZNxR4oWVTdfEb3Aa7AP2/yVAvIDWxqkLm5Gb0HzJsdKe87HfG3RSqZkEiuB0kyHd3OnrFIdtgP5wJAWxYRteggxpdOfsUJTRMn5rxvfEWZYFbS09m0U73DSM+Fa4U7UowaDzefTVhZEsXAH//Dq7fqqxRT7AFSGnCrRQJBANG8c0ua/06ga7aA8nlomfpWxpH7aqZ+TfxlYmjfnrVvfQaR8+bNZhg4CyhE80YlL6StiYen2DFtuvRYQZUL1/Y=", "00b4ff5048205ec2985280b5bbe56b93649adabd44fbfff437330301157ba6c879dd0b7ee209825e9f18e82f51d8664cc973654b85fe27cb6fae5390ab250897a42285a6e2fad816d7d1944186b1299f02c9ca98ad809e3b33861cdd79a01c089470de0e03d4ba6291bff7baccddd90e704f3f2b1c1dac417eb13aef45855c3d0a"},
		{"SHA-1", "MIICeQIBADANBgkqhkiG9w0BAQEFAASCAmMwggJfAgEAAoGBY5m4EYEBimznXyBIt2ZACfMNI8g0XAoClfnc4IhodyOitgENDNvpznhJTjc7MX64O1oQYTUpFcGpSu98ck7ymyzUr4y6NlsRSAqjIPa4C1uhM1bIf1naC4cuJEuhY9/xmKCc4nhO+d7KBN6X9XYToamckAiAxKzMEPE7Tp6LOgaXAgMBAAECgYE9OHBOuggTaOsyqmpn6H62XuIVu2qLpE+AlguxK8dia9IIo069N7NYCNGuNP66ZpShTrPAvGdbiyUe/WN185blxBK9mMHtvP+ZpgtnilJwIP6iKGPb6bsIl1wWzW96qA4C/RnFF/Wb+p2ZQE4Av0sBf/KzZDes20fGY44xk7sOuJkCQQzupr5xQHvwactLZtQjvPa8VNXB3KreKjHDOSft9Y6pJIvVIK8ohtX9dCIipL5Rdk1Wn5vyGPGRMOEgn3CgTDo1AkEHs6QbaAouyWFuLdF49qdoCPB7dXPk3L0M3Tz+0IEwRu2OmF9hM+WiItk8LIFbfcI6tgISkC0vC+nivP9a4cS3GwJBByRRH8FprEi0FFp62lM2S0jszPP4CsEQqlS3Hu8Seou8rCCyoSkPdeQ4G5XoR1azr7hUAwprbhUR2nJquwc7sbUCQQQzbUjxp9Q7TeSOI1rqlwd9EMcWmp9z875nkpSe4EiX9422+ReI+jFE9t8Gm4xu/RmPG3RKpgqqYemmE1bcHLOPAkEKJeBfl4buta+kVsklRKTWnwpwcKndYbZoDnt54MKM8Y+MYGZDBH4WKimYyp0ePiQGhJIZp/NeY/VlFVj62bYuFg==", "5e9187cc959dd74f3eb2e158421fbc24d6dfe57a1e3f693e80d6ca5079b30b086bacccde9138945de6766568738171d52d7ce85ff32e9f28a5b82a3bd59ca8d85a41a13c9c38e76325eaaa798128b84d8b3d0f65918f50ba32e6bc9070f745922611cfdaba3b9fffe605dd4d755cce2a951dd9fcdf49db058719eec2d71bf259bb"},
	} {
		der, err := base64.StdEncoding.DecodeString(c.key)
		if err != nil {
			t.Fatal(err)
		}
		key := string(der)
		signature := unhex(t, c.signature)
		if got := compute(t, "sign", "RSA-PSS", c.hash, "0", key, "m", ""); got != signature {
			t.Errorf("%s: signature %x", c.hash, got)
		}
		public := compute(t, "keyPublic", key)
		damaged := []byte(signature)
		damaged[len(damaged)/2] ^= 1
		salted := compute(t, "sign", "RSA-PSS", c.hash, "8", key, "m", "12345678")
		for _, v := range []struct{ length, signature, data, want string }{
			{"0", signature, "m", "\x01"},
			{"0", signature, "n", "\x00"},
			{"0", string(damaged), "m", "\x00"},
			{"0", signature[1:], "m", "\x00"},
			{"0", "\x00" + signature, "m", "\x00"},
			{"0", salted, "m", "\x00"},
			{"8", salted, "m", "\x01"},
			{"8", signature, "m", "\x00"},
		} {
			if got := compute(t, "verify", "RSA-PSS", c.hash, v.length, public, v.signature, v.data); got != v.want {
				t.Errorf("%s, a salt of %s bytes, data %q: %x", c.hash, v.length, v.data, got)
			}
		}
	}
	for _, length := range []string{"-1", "x"} {
		key := compute(t, "rsaGenerate", "1024", "\x03", "seed")
		if _, err := platform.Compute("sign", [][]byte{[]byte("RSA-PSS"), []byte("SHA-256"), []byte(length), []byte(key), []byte("m"), nil}); platform.ErrorName(err) != "OperationError" {
			t.Errorf("a salt of %s bytes: %v", length, err)
		}
	}
}
