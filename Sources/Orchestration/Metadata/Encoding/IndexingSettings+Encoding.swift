internal import Bytes

/// 0 is an absent threshold.
extension IndexingSettings {
    func append(to writer: ByteWriter) {
        writer.append(number: updateIntervalMilliseconds)
        writer.append(number: updateMinChanges)
        writer.append(number: replicaUpdateMinChanges)
        writer.append(number: parallelIndexersMax)
        writer.append(number: fragmentationPercent ?? 0)
        writer.append(number: fragmentationBytes ?? 0)
    }

    init?(_ reader: inout ByteReader) {
        guard let interval = reader.number(UInt32.self), let changes = reader.leb128(),
            let replicaChanges = reader.leb128(), let indexers = reader.number(UInt16.self),
            let percent = reader.number(UInt16.self), let bytes = reader.leb128()
        else { return nil }
        self.init()
        updateIntervalMilliseconds = interval
        updateMinChanges = changes
        replicaUpdateMinChanges = replicaChanges
        parallelIndexersMax = indexers
        fragmentationPercent = percent == 0 ? nil : percent
        fragmentationBytes = bytes == 0 ? nil : bytes
    }
}

extension IndexingChange {
    func append(to writer: ByteWriter) {
        settings.append(to: writer)
        was.append(to: writer)
    }

    init?(_ reader: inout ByteReader) {
        guard let settings = IndexingSettings(&reader), let was = IndexingSettings(&reader) else {
            return nil
        }
        self.init(settings, was: was)
    }
}
