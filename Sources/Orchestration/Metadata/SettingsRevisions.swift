internal import Bytes
internal import Vocabulary

/// Texts that differ if the settings of an object differ, by which a client recognizes that an object has
/// changed since the client read it.
///
/// All nodes compute the same text from the same settings. An object that is changed back has its old text
/// again.
extension BucketRecord {
    /// Covers the settings and the options, and the UUID among them, but not the password's keys: every
    /// client that may read the settings could check guesses of the password with the text.
    package var settingsRevision: String {
        var settings = settings
        settings.password = []
        return revision { writer in
            settings.append(to: writer)
            options.append(to: writer)
        }
    }
}

extension LocalUser {
    /// Covers the name and the roles, which a request replaces together.
    package var settingsRevision: String {
        revision { writer in
            name.append(to: writer)
            for grant in grants { grant.append(to: writer) }
        }
    }
}

private func revision(_ write: (ByteWriter) -> Void) -> String {
    let writer = ByteWriter()
    write(writer)
    let digits = String(CRC32.checksum(writer.view), radix: 16)
    return String(repeating: "0", count: 8 - digits.count) + digits
}
