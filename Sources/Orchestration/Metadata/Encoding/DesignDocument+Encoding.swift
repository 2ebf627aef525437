internal import Bytes
internal import Vocabulary

extension DesignDocumentChange {
    func append(to writer: ByteWriter) {
        writer.append(counted: bucket)
        writer.append(counted: name)
        writer.append(counted: body)
        writer.append(flag: was != nil)
        was?.append(to: writer)
    }

    init?(_ reader: inout ByteReader) {
        guard let bucket = reader.text(), let name = reader.text(), let body = reader.counted(),
            let hasBasis = reader.flag()
        else { return nil }
        self.init(bucket: bucket, name: name, body: body)
        guard hasBasis else { return }
        guard let basis = DesignRevision(&reader) else { return nil }
        was = basis
    }
}

extension DesignRevision {
    fileprivate func append(to writer: ByteWriter) {
        writer.append(number: number)
        writer.append(bigEndian: digest)
    }

    fileprivate init?(_ reader: inout ByteReader) {
        guard let number = reader.number(UInt32.self), let digest = reader.bigEndian(UInt32.self)
        else { return nil }
        self.init(number: number, digest: digest)
    }
}

/// A removal with a basis has a command of its own (`deleteDesignDocumentRevision`).
extension DesignDocumentRemoval {
    func append(to writer: ByteWriter) {
        writer.append(counted: bucket)
        writer.append(counted: name)
        was?.append(to: writer)
    }

    init?(_ reader: inout ByteReader) {
        guard let bucket = reader.text(), let name = reader.text() else { return nil }
        self.init(bucket: bucket, name: name)
    }

    /// Reads a removal with a basis.
    init?(based reader: inout ByteReader) {
        self.init(&reader)
        guard let basis = DesignRevision(&reader) else { return nil }
        was = basis
    }
}

/// The digest is not stored: the text has it.
extension DesignDocument {
    func append(to writer: ByteWriter) {
        writer.append(counted: name)
        writer.append(number: revision.number)
        writer.append(counted: body)
    }

    init?(_ reader: inout ByteReader) {
        guard let name = reader.text(), let number = reader.number(UInt32.self),
            let body = reader.counted()
        else { return nil }
        self.init(name: name, body: body, number: number)
    }
}
