internal import Bytes
internal import Vocabulary

extension DesignDocumentChange {
    func append(to writer: ByteWriter) {
        writer.append(counted: bucket)
        writer.append(counted: name)
        writer.append(counted: body)
        writer.append(flag: was != nil)
        guard let was else { return }
        writer.append(number: was.number)
        writer.append(bigEndian: was.digest)
    }

    init?(_ reader: inout ByteReader) {
        guard let bucket = reader.text(), let name = reader.text(), let body = reader.counted(),
            let hasBasis = reader.flag()
        else { return nil }
        self.init(bucket: bucket, name: name, body: body)
        guard hasBasis else { return }
        guard let number = reader.number(UInt32.self), let digest = reader.bigEndian(UInt32.self)
        else { return nil }
        was = DesignRevision(number: number, digest: digest)
    }
}

extension DesignDocumentRemoval {
    func append(to writer: ByteWriter) {
        writer.append(counted: bucket)
        writer.append(counted: name)
    }

    init?(_ reader: inout ByteReader) {
        guard let bucket = reader.text(), let name = reader.text() else { return nil }
        self.init(bucket: bucket, name: name)
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
