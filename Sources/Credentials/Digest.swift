internal import Crypto

/// SHA-256 of bytes, for names by content.
package enum Digest {
    /// The 32 bytes of the hash.
    package static func sha256(_ bytes: [UInt8]) -> [UInt8] { Array(SHA256.hash(data: bytes)) }
}
