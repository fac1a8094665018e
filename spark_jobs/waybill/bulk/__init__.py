"""Messages in bulk, where they have the same form.

Most messages of a topic differ in nothing but a few values. Here such messages are found, their
values read as columns, and written again, by compiled code over whole blocks; `forms` reads,
`templates` writes, `converter` does both. What a message means stays with its envelope: a decoder
and an encoder take the first message of every form and one of each in every block, and what is
written in bulk must be what they write. Whatever has no such form goes their way, message by
message.
"""
