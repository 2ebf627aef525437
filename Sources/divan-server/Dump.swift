import Bytes
import Foundation
import LinuxPlatform
import Server

/// `--dump`: documents on standard output, what cannot be read on standard error.
enum Dump {
    static func write(_ directory: String) throws {
        let dump = DataDump(disk: LinuxDisk())
        try dump.lines(
            of: directory,
            damage: { FileHandle.standardError.write(Data("divan-server: \($0)\n".utf8)) },
            write: { FileHandle.standardOutput.write(Data($0.bytes)) }
        )
    }
}
