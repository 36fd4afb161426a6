"""The paper's evaluation as one page: its figures and statements as data, drawn and compared with ours.

`catalogue` says which runs are needed; whoever has their values gives them to `writing.write_page`.
"""
