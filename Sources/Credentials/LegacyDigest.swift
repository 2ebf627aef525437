package import Bytes
internal import Crypto

/// MD5 and SHA-1 of bytes, for the names that the sync protocol gives to revisions and attachments.
///
/// Both are broken: anyone can make two texts with the same digest. They name content for clients that
/// compute the same names, and protect nothing: passwords, keys and signatures use other hashes.
package enum LegacyDigest {
    /// The 16 bytes of the hash.
    package static func md5(_ bytes: [UInt8]) -> [UInt8] {
        Array(Insecure.MD5.hash(data: bytes))
    }

    /// The 20 bytes of the hash.
    package static func sha1(_ bytes: [UInt8]) -> [UInt8] {
        Array(Insecure.SHA1.hash(data: bytes))
    }
}

/// MD5 and SHA-1 of an attachment that arrives in pieces.
///
/// Devices name an attachment by either hash, and which one is known only behind the bytes.
package struct StreamedDigest {
    private var md5 = Insecure.MD5()
    private var sha1 = Insecure.SHA1()

    package init() {}

    /// Appends the next bytes.
    package mutating func append(_ bytes: ByteView) {
        md5.update(bufferPointer: bytes.buffer)
        sha1.update(bufferPointer: bytes.buffer)
    }

    /// The hashes of all bytes so far, of 16 and 20 bytes; more bytes may follow.
    package var digests: (md5: [UInt8], sha1: [UInt8]) {
        (Array(md5.finalize()), Array(sha1.finalize()))
    }
}
